//! Sessions that outlive their links, as a server keeps them.

mod support;

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, Mutex},
    task::{Context as Task, Poll},
    time::Duration,
};

use bytes::BytesMut;

use nalix_core::{
    CloseCode, CloseReason, Connection,
    connection::{Anchor, Driver, Options, Serving, connect, connect_attached},
    controller::Router,
    frame::ResumeToken,
    handshake::{ClientSecurity, Contracts, SessionId},
    link::{
        Link,
        memory::{self, MemoryLink},
    },
    registry::Registry,
};
use nalix_server::{
    Context, HubEvent, HubExt, PresenceEvent, Server, ServerBuilder, ServerHandle, packet, packet_controller,
};
use support::until;

#[packet(opcode = 0x1001, reply = u32)]
struct Next(u32);

#[packet(opcode = 0x3001)]
struct Heard(u32);

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn push(&self, text: impl Into<String>) {
        self.0.lock().unwrap().push(text.into());
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

struct Game(Log);

#[packet_controller]
impl Game {
    #[connected]
    fn hello(&self, ctx: &Context) {
        ctx.hub().group("world").join(ctx);
        self.0.push("connected");
    }

    #[detached]
    async fn away(&self, _: &Context, why: &CloseReason) {
        // Whatever comes behind waits for this.
        tokio::time::sleep(Duration::from_millis(5)).await;
        self.0.push(format!("detached {:?}", why.code));
    }

    #[resumed]
    async fn back(&self, _: &Context) {
        tokio::time::sleep(Duration::from_millis(5)).await;
        self.0.push("resumed");
    }

    #[disconnected]
    fn bye(&self, _: &Context, why: &CloseReason) {
        self.0.push(format!("disconnected {:?}", why.code));
    }

    #[packet]
    fn next(&self, Next(n): Next) -> u32 {
        self.0.push(format!("next {n}"));
        n + 1
    }
}

async fn server(change: impl FnOnce(ServerBuilder) -> ServerBuilder) -> (ServerHandle, Log) {
    let log = Log::default();
    let builder = Server::builder().plaintext().no_listener().controller(Game(log.clone()));
    (change(builder).build().await.unwrap().handle(), log)
}

struct Player {
    connection: Connection,
    anchor: Anchor<MemoryLink>,
}

fn contracts() -> Contracts {
    Contracts::of(Registry::global().unwrap())
}

fn link(server: &ServerHandle) -> MemoryLink {
    let (near, far) = memory::pair(1 << 16);
    server.serve_link(far);
    near
}

impl Player {
    async fn join(server: &ServerHandle) -> Self {
        let options = Options::default();
        let established =
            connect(link(server), contracts(), &ClientSecurity::Plaintext, &options).await.unwrap();
        let (connection, mut driver) = Driver::new(established, Serving::from(Router::empty()), &options);
        let anchor = driver.anchor();
        tokio::spawn(driver);
        Self { connection, anchor }
    }

    /// Loses its link, and waits until the server has noticed.
    async fn leave(&self, server: &ServerHandle) {
        let before = away(server);
        self.connection.detach();
        assert!(self.connection.until_detached().await.is_some());
        until("the server has noticed", || away(server) > before).await;
    }

    /// Asks to go on, and does if the server agrees.
    async fn come_back(&self, server: &ServerHandle) -> bool {
        let attach = self.anchor.offer().unwrap();
        let options = Options::default();
        let established =
            connect_attached(link(server), contracts(), &ClientSecurity::Plaintext, attach, &options)
                .await
                .unwrap();
        established.is_attached() && self.anchor.attach(established).await.is_ok()
    }

    fn session(&self) -> SessionId {
        self.anchor.session().unwrap()
    }
}

fn away(server: &ServerHandle) -> usize {
    server.hub().info().iter().filter(|info| info.detached.is_some()).count()
}

#[tokio::test(start_paused = true)]
async fn hooks_run_once_each_and_in_order() {
    let (server, log) = server(|builder| builder).await;
    let player = Player::join(&server).await;
    assert_eq!(player.connection.request(Next(1)).await.unwrap(), 2);
    for n in 0..2 {
        player.leave(&server).await;
        assert!(player.come_back(&server).await);
        assert_eq!(player.connection.request(Next(n)).await.unwrap(), n + 1);
    }
    player.leave(&server).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    until("the session is over", || server.connection_count() == 0).await;
    let expected = [
        "connected",
        "next 1",
        "detached Lost",
        "resumed",
        "next 0",
        "detached Lost",
        "resumed",
        "next 1",
        "detached Lost",
        "disconnected Lost",
    ];
    assert_eq!(log.all(), expected);
}

/// It has noticed before the server that its link leads nowhere.
#[tokio::test(start_paused = true)]
async fn a_newer_link_takes_the_place_of_one_that_the_server_takes_for_alive() {
    let (server, log) = server(|builder| builder).await;
    let options = Options::default();
    let (near, far) = memory::pair(1 << 16);
    server.serve_link(far);
    // The test's end is kept open, so the server hears nothing.
    let (driven, mut pump_near) = memory::pair(1 << 16);
    let mut near = near;
    let pump = tokio::spawn(async move {
        let mut buf = BytesMut::new();
        loop {
            let (from_server, n) = std::future::poll_fn(|cx| {
                if let std::task::Poll::Ready(Ok(n)) = near.poll_read(cx, &mut buf) {
                    return std::task::Poll::Ready((true, n));
                }
                match pump_near.poll_read(cx, &mut buf) {
                    std::task::Poll::Ready(Ok(n)) => std::task::Poll::Ready((false, n)),
                    _ => std::task::Poll::Pending,
                }
            })
            .await;
            if n == 0 {
                // The client has gone: this end stays open.
                std::future::pending::<()>().await;
            }
            while !buf.is_empty() {
                let to = if from_server { &mut pump_near } else { &mut near };
                let n = std::future::poll_fn(|cx| to.poll_write(cx, &buf)).await.unwrap();
                bytes::Buf::advance(&mut buf, n);
            }
        }
    });
    let established = connect(driven, contracts(), &ClientSecurity::Plaintext, &options).await.unwrap();
    let (connection, mut driver) = Driver::new(established, Serving::from(Router::empty()), &options);
    let player = Player { connection, anchor: driver.anchor() };
    tokio::spawn(driver);
    assert_eq!(player.connection.request(Next(1)).await.unwrap(), 2);
    player.connection.detach();
    player.connection.until_detached().await;
    assert_eq!(away(&server), 0, "the server knows nothing of it");
    assert!(player.come_back(&server).await);
    assert_eq!(player.connection.request(Next(2)).await.unwrap(), 3);
    assert_eq!(log.all(), ["connected", "next 1", "detached Lost", "resumed", "next 2"]);
    assert_eq!(server.connection_count(), 1);
    pump.abort();
}

#[tokio::test(start_paused = true)]
async fn whoever_is_away_stays_in_its_groups_and_hears_what_was_said_meanwhile() {
    let (server, _log) = server(|builder| builder).await;
    let hub = server.hub();
    let (_members, mut presence) = hub.group("world").watch(16);
    let mut events = hub.watch(16);
    let player = Player::join(&server).await;
    let mut heard = player.connection.subscribe::<Heard>();
    assert!(matches!(presence.next().await, PresenceEvent::Joined(_)));
    assert!(matches!(events.next().await, HubEvent::Opened(_)));
    player.leave(&server).await;
    assert!(matches!(presence.next().await, PresenceEvent::Away(_)));
    assert!(matches!(events.next().await, HubEvent::Detached(_)));
    for n in 0..10 {
        hub.group("world").send(&Heard(n));
    }
    assert!(player.come_back(&server).await);
    assert!(matches!(presence.next().await, PresenceEvent::Back(_)));
    assert!(matches!(events.next().await, HubEvent::Resumed(_)));
    for n in 0..10 {
        assert_eq!(heard.next().await.unwrap().unwrap().0, n);
    }
    player.connection.close();
    assert!(matches!(presence.next().await, PresenceEvent::Left(_)));
}

#[tokio::test(start_paused = true)]
async fn a_revoked_session_cannot_come_back() {
    let (server, log) = server(|builder| builder).await;
    let player = Player::join(&server).await;
    player.leave(&server).await;
    server.revoke(player.session()).await.unwrap();
    until("it is over", || server.connection_count() == 0).await;
    assert!(!player.come_back(&server).await);
    assert!(log.all().contains(&"disconnected Normal".to_owned()));
    // One that is connected loses the right to.
    let player = Player::join(&server).await;
    server.revoke(player.session()).await.unwrap();
    assert_eq!(player.connection.request(Next(1)).await.unwrap(), 2);
    player.leave(&server).await;
    assert!(!player.come_back(&server).await);
}

#[tokio::test(start_paused = true)]
async fn nobody_goes_on_with_the_session_of_another() {
    let (server, _log) = server(|builder| builder).await;
    let (one, two) = (Player::join(&server).await, Player::join(&server).await);
    one.leave(&server).await;
    two.leave(&server).await;
    let mut stolen = two.anchor.offer().unwrap();
    stolen.session = one.session();
    let options = Options::default();
    let established =
        connect_attached(link(&server), contracts(), &ClientSecurity::Plaintext, stolen, &options)
            .await
            .unwrap();
    assert!(!established.is_attached());
    assert!(one.come_back(&server).await && two.come_back(&server).await);
}

#[tokio::test(start_paused = true)]
async fn a_link_that_was_asked_for_earlier_does_not_take_the_place_of_a_later_one() {
    let (server, _log) = server(|builder| builder).await;
    let player = Player::join(&server).await;
    player.leave(&server).await;
    let early = player.anchor.offer().unwrap();
    assert!(player.come_back(&server).await);
    // The late one gets no answer: its client has given it up.
    let options = Options::default().handshake_timeout(Duration::from_secs(1));
    let late =
        connect_attached(link(&server), contracts(), &ClientSecurity::Plaintext, early, &options).await;
    assert!(late.is_err());
    assert_eq!(player.connection.request(Next(1)).await.unwrap(), 2);
    assert_eq!(player.connection.links_lost(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_drain_does_not_wait_for_whoever_is_away() {
    let (server, log) = server(|builder| builder.drain_timeout(Duration::from_secs(60))).await;
    let player = Player::join(&server).await;
    player.leave(&server).await;
    let before = tokio::time::Instant::now();
    server.shutdown();
    for connection in server.connections() {
        connection.drain(Duration::from_secs(60));
    }
    until("it is over", || server.connection_count() == 0).await;
    assert!(before.elapsed() < Duration::from_secs(1), "{:?}", before.elapsed());
    assert_eq!(log.all().last().unwrap(), "disconnected GoingAway");
}

#[tokio::test(start_paused = true)]
async fn a_full_server_lets_those_in_who_come_back_and_keeps_no_more_than_it_may() {
    let (server, _log) = server(|builder| builder.max_connections(2).max_detached(1)).await;
    let (one, two) = (Player::join(&server).await, Player::join(&server).await);
    one.leave(&server).await;
    assert!(one.come_back(&server).await);
    one.leave(&server).await;
    // The one that has been away for longest goes.
    two.connection.detach();
    until("one is over", || server.connection_count() == 1).await;
    assert!(two.come_back(&server).await);
    assert!(!one.come_back(&server).await);
    assert_eq!(two.connection.request(Next(1)).await.unwrap(), 2);
    drop(one);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_closed_is_not_kept() {
    let (server, log) = server(|builder| builder).await;
    let player = Player::join(&server).await;
    player.connection.close();
    assert_eq!(player.connection.closed().await.code, CloseCode::Normal);
    until("it is over", || server.connection_count() == 0).await;
    assert_eq!(log.all(), ["connected", "disconnected Normal"]);
}

#[tokio::test(start_paused = true)]
async fn one_address_cannot_have_the_sessions_of_others_ended() {
    let (server, _log) = server(|builder| builder.max_detached(16)).await;
    let join = async |address: &str| {
        let (near, far) = memory::pair(1 << 16);
        server.serve_link(From { link: far, address: address.parse().unwrap() });
        let options = Options::default();
        let established = connect(near, contracts(), &ClientSecurity::Plaintext, &options).await.unwrap();
        let (connection, mut driver) = Driver::new(established, Serving::from(Router::empty()), &options);
        let player = Player { connection, anchor: driver.anchor() };
        tokio::spawn(driver);
        player
    };
    let honest = join("198.51.100.7:1").await;
    honest.leave(&server).await;
    for n in 1..50 {
        let one = join("203.0.113.9:1").await;
        one.connection.detach();
        until("it is away or has ended another", || away(&server) == (n + 1).min(3)).await;
        until("the others are gone", || server.connection_count() == (n + 1).min(3)).await;
    }
    assert!(honest.come_back(&server).await);
}

struct From {
    link: MemoryLink,
    address: SocketAddr,
}

impl Link for From {
    fn poll_read(&mut self, cx: &mut Task<'_>, buf: &mut BytesMut) -> Poll<io::Result<usize>> {
        self.link.poll_read(cx, buf)
    }

    fn poll_write(&mut self, cx: &mut Task<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.link.poll_write(cx, bytes)
    }

    fn poll_close(&mut self, cx: &mut Task<'_>) -> Poll<io::Result<()>> {
        self.link.poll_close(cx)
    }

    fn peer_addr(&self) -> Option<SocketAddr> {
        Some(self.address)
    }
}

/// Whoever guesses gets a session of its own, and takes nothing from the one that is guessed at.
#[tokio::test(start_paused = true)]
async fn wrong_tokens_neither_get_a_session_nor_harm_it() {
    let (server, log) = server(|builder| builder).await;
    let player = Player::join(&server).await;
    player.leave(&server).await;
    let right = player.anchor.offer().unwrap();
    let options = Options::default();
    for n in 0..1_000u128 {
        let mut wrong = right.clone();
        wrong.token = ResumeToken::from_bytes(n.to_be_bytes());
        wrong.epoch = u32::MAX;
        let established =
            connect_attached(link(&server), contracts(), &ClientSecurity::Plaintext, wrong, &options).await;
        assert!(!established.unwrap().is_attached());
    }
    assert!(player.come_back(&server).await);
    assert_eq!(player.connection.request(Next(1)).await.unwrap(), 2);
    assert_eq!(log.all().iter().filter(|what| *what == "resumed").count(), 1);
    // Nobody comes back: it ends on time, with everything that it holds.
    player.leave(&server).await;
    tokio::time::sleep(Duration::from_secs(31)).await;
    until("all are over", || server.connection_count() == 0).await;
    assert_eq!(server.hub().group("world").count(), 0);
    assert!(!player.come_back(&server).await);
}

/// The one that was recorded is of an earlier link, whatever it is played back after.
#[tokio::test(start_paused = true)]
async fn a_recorded_offer_is_of_no_use_once_the_session_has_gone_on() {
    let (server, _log) = server(|builder| builder).await;
    let player = Player::join(&server).await;
    player.leave(&server).await;
    let recorded = player.anchor.offer().unwrap();
    assert!(player.come_back(&server).await);
    player.leave(&server).await;
    let options = Options::default().handshake_timeout(Duration::from_millis(100));
    let replayed =
        connect_attached(link(&server), contracts(), &ClientSecurity::Plaintext, recorded, &options).await;
    assert!(replayed.is_err(), "it is dropped without an answer");
    assert!(player.come_back(&server).await);
    assert_eq!(player.connection.request(Next(1)).await.unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn tokens_have_nothing_in_common() {
    let (server, _log) = server(|builder| builder.max_connections(2_000)).await;
    let mut tokens = std::collections::HashSet::new();
    let mut firsts = std::collections::HashSet::new();
    for _ in 0..500 {
        let player = Player::join(&server).await;
        player.connection.detach();
        player.connection.until_detached().await;
        let token = *player.anchor.offer().unwrap().token.as_bytes();
        firsts.insert(token[..4].to_vec());
        assert!(tokens.insert(token));
        player.connection.abort();
    }
    assert!(firsts.len() > 490, "{}", firsts.len());
}
