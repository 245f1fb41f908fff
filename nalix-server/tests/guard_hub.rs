//! Servers that are full, and who comes, stays and goes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{net::SocketAddr, time::Duration};

use nalix_client::{Client, ConnectError, Session};
use nalix_core::link::StreamLink;
use nalix_server::{
    Advice, CloseCode, CloseReason, Context, Hub, HubEvent, HubExt, Identity, PublicKey, RefusalCause,
    Server, ServerBuilder, ServerHandle, WhenFull, packet, packet_controller,
};
use support::{Live, RawPeer, soon, until};
use tokio::{
    io::{AsyncWriteExt, DuplexStream, duplex},
    time::{Instant, sleep},
};

#[packet(opcode = 0x1001, reply = u32)]
struct Double(u32);

#[packet(opcode = 0x1002, reply = bool)]
struct Login(String);

#[derive(Default, Clone)]
struct Game {
    connected: Live,
}

#[packet_controller]
impl Game {
    #[packet]
    fn double(&self, Double(n): Double) -> u32 {
        n * 2
    }

    #[packet]
    fn login(&self, ctx: &Context, hub: Hub, Login(name): Login) -> bool {
        ctx.group("users").join(ctx.connection());
        hub.identify(ctx.connection(), name).is_none()
    }

    #[connected]
    fn connected(&self, _: &Context) {
        drop(self.connected.enter());
    }
}

struct World {
    server: ServerHandle,
    key: PublicKey,
    game: Game,
}

impl World {
    async fn new(set: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Self {
        let (identity, game) = (Identity::generate().unwrap(), Game::default());
        let key = identity.public_key();
        let builder = Server::builder().identity(identity).no_listener().controller(game.clone());
        Self { server: set(builder).build().await.unwrap().spawn().0, key, game }
    }

    async fn evicting(max: usize) -> Self {
        Self::new(|server| server.max_connections(max).when_full(WhenFull::EvictAnonymous)).await
    }

    fn link(&self, from: &str) -> DuplexStream {
        let (ours, theirs) = duplex(1 << 16);
        let from: SocketAddr = from.parse().unwrap();
        self.server.serve_link(StreamLink::new(theirs).with_addrs(Some(from), None));
        ours
    }

    async fn connect(&self) -> Result<Session, ConnectError> {
        let client = Client::builder("").server_key(self.key);
        soon(client.connect_over(StreamLink::new(self.link("127.0.0.1:9")))).await
    }

    /// A client that is there once the server has said so.
    async fn open(&self) -> Session {
        let session = self.connect().await.unwrap();
        assert_eq!(session.request(Double(2)).await.unwrap(), 4);
        session
    }

    async fn with_key(&self) -> Session {
        let client = Client::builder("").server_key(self.key).identity(Identity::generate().unwrap());
        let session = soon(client.connect_over(StreamLink::new(self.link("127.0.0.1:9")))).await.unwrap();
        assert_eq!(session.request(Double(2)).await.unwrap(), 4);
        session
    }

    async fn has(&self, n: usize) {
        until("so many connections", || self.server.connection_count() == n).await;
    }
}

async fn works(session: &Session) -> bool {
    soon(async { session.request(Double(5)).await }).await.is_ok()
}

async fn is_evicted(session: &Session) {
    let reason = soon(session.closed()).await;
    assert_eq!(reason.code, CloseCode::LimitExceeded, "{reason}");
    assert!(matches!(reason.advice, Advice::Retry { .. }));
}

#[tokio::test(start_paused = true)]
async fn a_full_server_closes_its_oldest_anonymous_connection_for_a_new_one() {
    let world = World::evicting(4).await;
    let keyed = world.with_key().await;
    let named = world.open().await;
    assert!(named.request(Login("ada".into())).await.unwrap());
    let [first, second] = [world.open().await, world.open().await];
    let third = world.open().await;
    is_evicted(&first).await;
    let late = world.open().await;
    is_evicted(&second).await;
    for session in [&keyed, &named, &third, &late] {
        assert!(works(session).await);
    }
    world.has(4).await;
    // With those named who are left, nobody can go, and the new one is told so before anything is served to it.
    for session in [&third, &late] {
        assert!(session.request(Login("bob".into())).await.unwrap());
    }
    let before = world.game.connected.entered();
    // The handshake is done on the client's side when it is refused.
    match world.connect().await {
        Ok(session) => {
            assert!(session.request(Double(1)).await.is_err());
            is_evicted(&session).await;
        }
        Err(ConnectError::Refused(reason)) => assert_eq!(reason.code, CloseCode::LimitExceeded),
        Err(error) => panic!("{error}"),
    }
    assert_eq!(world.game.connected.entered(), before, "no hook ran");
    assert_eq!((world.server.guard().refused(RefusalCause::Full), world.server.refused_count()), (1, 1));
    named.close().await;
    world.has(3).await;
    let next = world.open().await;
    assert!(works(&next).await);
}

/// A link that says nothing would else push out everybody who is there.
#[tokio::test(start_paused = true)]
async fn nobody_is_evicted_for_a_link_whose_handshake_is_not_done() {
    let world = World::evicting(2).await;
    let sessions = [world.open().await, world.open().await];
    let mut silent: Vec<_> = (0..20).map(|_| world.link("10.0.0.1:1")).collect();
    for link in &mut silent {
        link.write_all(&RawPeer::hello()[..3]).await.unwrap();
    }
    sleep(Duration::from_secs(5)).await;
    for session in &sessions {
        assert!(works(session).await);
    }
}

#[tokio::test(start_paused = true)]
async fn places_are_given_back_exactly_whoever_takes_them() {
    for max in [1, 3] {
        let world = World::evicting(max).await;
        for _ in 0..3 {
            let mut sessions = Vec::new();
            for _ in 0..3 * max {
                sessions.push(world.open().await);
            }
            world.has(max).await;
            let alive = sessions.split_off(2 * max);
            for session in &sessions {
                is_evicted(session).await;
            }
            for session in &alive {
                assert!(works(session).await);
            }
            drop((sessions, alive));
            world.has(0).await;
        }
        // Many that come and go leave nothing behind that somebody has to look at.
        for _ in 0..300 {
            world.open().await.close().await;
            world.has(0).await;
        }
        let sessions: Vec<_> = [world.open().await].into();
        assert!(works(&sessions[0]).await);
    }
    let none = World::evicting(0).await;
    match none.connect().await {
        Ok(session) => is_evicted(&session).await,
        Err(error) => assert!(matches!(error, ConnectError::Refused(_)), "{error}"),
    }
}

#[tokio::test(start_paused = true)]
async fn watchers_hear_who_comes_and_goes_and_once_that_there_is_no_room() {
    let world = World::new(|server| server.max_connections(2)).await;
    let mut events = world.server.hub().watch(100);
    assert!(events.try_next().is_none());
    let [first, second] = [world.open().await, world.open().await];
    let mut ids = Vec::new();
    for _ in 0..2 {
        let HubEvent::Opened(connection) = soon(events.next()).await else { panic!("nobody came") };
        assert!(world.server.hub().contains(connection.id()));
        ids.push(connection.id());
    }
    for _ in 0..5 {
        assert!(world.connect().await.is_err());
    }
    assert!(matches!(soon(events.next()).await, HubEvent::Full));
    second.close().await;
    let HubEvent::Ended { id, reason } = soon(events.next()).await else { panic!("nobody went") };
    assert_eq!((id, reason.unwrap().code), (ids[1], CloseCode::Normal));
    let third = world.open().await;
    assert!(matches!(soon(events.next()).await, HubEvent::Opened(_)));
    assert!(world.connect().await.is_err());
    assert!(matches!(soon(events.next()).await, HubEvent::Full), "it was not full in between");
    assert!(events.try_next().is_none());
    drop((first, third));
}

#[tokio::test(start_paused = true)]
async fn a_watcher_that_does_not_look_hears_how_much_it_has_missed_and_takes_no_more_memory() {
    let world = World::new(|server| server).await;
    let mut slow = world.server.hub().watch(3);
    let gone = world.server.hub().watch(0);
    for _ in 0..10 {
        world.open().await.close().await;
        world.has(0).await;
    }
    drop(gone);
    until("all told", || format!("{slow:?}").contains("waiting: 3")).await;
    assert!(matches!(slow.next().await, HubEvent::Missed(17)));
    for _ in 0..3 {
        assert!(!matches!(slow.next().await, HubEvent::Missed(_)));
    }
    assert!(slow.try_next().is_none());
}

#[tokio::test(start_paused = true)]
async fn operators_see_who_is_there_and_since_when() {
    let world = World::new(|server| server).await;
    let me = Identity::generate().unwrap();
    let client = Client::builder("").server_key(world.key).identity(me.clone());
    let start = Instant::now().into_std();
    let link = world.link("[::ffff:192.0.2.7]:4711");
    let session = soon(client.connect_over(StreamLink::new(link))).await.unwrap();
    assert!(session.request(Login("ada".into())).await.unwrap());
    assert!(!session.request(Login("Ada Lovelace".into())).await.unwrap());
    sleep(Duration::from_secs(60)).await;
    let other = world.open().await;
    let mut all = world.server.hub().info();
    all.sort_by_key(|info| info.id);
    let [info, anonymous] = &all[..] else { panic!("{all:?}") };
    assert_eq!(info.identity.as_deref(), Some("Ada Lovelace"));
    assert_eq!((info.peer_key, info.groups), (Some(me.public_key()), 1));
    assert_eq!(info.address, Some("[::ffff:192.0.2.7]:4711".parse().unwrap()));
    assert_eq!((info.calls_in_flight, info.unwritten_bytes, info.left_out), (0, 0, 0));
    assert!(info.ended.is_none());
    assert_eq!(anonymous.since.duration_since(info.since).as_secs(), 60);
    assert!(info.since.duration_since(start) < Duration::from_secs(1));
    assert!((anonymous.identity.as_ref(), anonymous.peer_key) == (None, None));
    // Its address is one with the mapped form.
    let reason = CloseReason::new(CloseCode::Normal, "bye");
    assert_eq!(world.server.hub().close_address("192.0.2.7".parse().unwrap(), &reason), 1);
    soon(session.closed()).await;
    assert!(works(&other).await);
}
