//! Policies that are checked before a handler runs: permission, conditions, size, transport, rate.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

use nalix_client::{Client, Session};
use nalix_core::{frame::FrameKind, link::memory, packet::NoError};
use nalix_server::{
    Advice, Check, Code, Context, Options, Permission, RequestError, ServerHandle, Status, packet,
    packet_controller,
};
use support::{RawPeer, Recorder, notify, request, server, session, soon, until};
use tokio::time::{advance, sleep};

#[packet(opcode = 0x1001, reply = ())]
struct Login {
    level: u8,
    account: u64,
}

#[packet(opcode = 0x1002, reply = u32)]
struct Move(u8);

/// For supervisors, as both sides know.
#[packet(opcode = 0x1003, reply = (), permission = 175, max_size = 4)]
struct Kick(String);

#[packet(opcode = 0x1004, reply = ())]
struct Odd(u8);

#[packet(opcode = 0x1005, reply = u64)]
struct Short(Vec<u8>);

#[packet(opcode = 0x1006, reply = ())]
struct OverTcp;

#[packet(opcode = 0x1007, reply = ())]
struct InMemory;

#[packet(opcode = 0x1008, reply = ())]
struct Rated;

#[packet(opcode = 0x1009, reply = ())]
struct ByAddress;

#[packet(opcode = 0x100a, reply = ())]
struct ByIdentity;

#[packet(opcode = 0x100b)]
struct Note(u8);

#[packet(opcode = 0x100c, reply = ())]
struct Dear;

#[packet(opcode = 0x100d, reply = ())]
struct Panics;

#[derive(Default, Clone)]
struct Game {
    runs: Arc<AtomicU32>,
}

struct IsOdd(&'static str);

impl Check for IsOdd {
    fn check(&self, ctx: &Context) -> Result<(), Status> {
        match ctx.metadata("n") {
            Some([n]) if n % 2 == 1 => Ok(()),
            _ => Err(Status::failed_precondition(self.0)),
        }
    }
}

fn panics(_: &Context) -> Result<(), Status> {
    panic!("a check that panics")
}

const BURST: u32 = 2;

#[packet_controller]
impl Game {
    #[packet]
    async fn login(&self, ctx: &Context, login: Login) {
        // Not at once, as a login takes its time.
        sleep(Duration::from_millis(10)).await;
        ctx.set_permission(Permission::new(login.level));
        ctx.set_identity(login.account);
    }

    #[packet(permission = Permission::USER)]
    fn movement(&self, _: Move) -> u32 {
        self.runs.fetch_add(1, SeqCst) + 1
    }

    #[packet(permission = 1, max_size = 1_000)]
    fn kick(&self, _: Kick) {}

    #[packet(check = IsOdd("odd numbers only"))]
    fn odd(&self, _: Odd) {
        self.runs.fetch_add(1, SeqCst);
    }

    #[packet(max_size = 8)]
    fn short(&self, packet: Short) -> u64 {
        packet.0.len() as u64
    }

    #[packet(transport = "tcp")]
    fn over_tcp(&self, _: OverTcp) {}

    #[packet(transport = ["udp", "memory"])]
    fn in_memory(&self, _: InMemory) {}

    #[packet(rate = "10/s", burst = BURST)]
    fn rated(&self, _: Rated) {
        self.runs.fetch_add(1, SeqCst);
    }

    #[packet(rate = "2/min", key = address)]
    fn by_address(&self, _: ByAddress) {}

    #[packet(rate = "2/min", key = identity)]
    fn by_identity(&self, _: ByIdentity) {}

    #[packet(rate = "3/min")]
    fn note(&self, _: Note) {
        self.runs.fetch_add(1, SeqCst);
    }

    #[packet(rate = "5/s", cost = 2)]
    fn dear(&self, _: Dear) {}

    #[packet(check = panics)]
    fn panics(&self, _: Panics) {}
}

async fn game() -> (Game, ServerHandle) {
    let game = Game::default();
    let server = server(game.clone(), Options::default()).await;
    (game, server)
}

/// A session from an address.
async fn from(server: &ServerHandle, peer: &str) -> Session {
    let (ours, theirs) = memory::pair(64 * 1024);
    let peer: SocketAddr = peer.parse().unwrap();
    server.serve_link(theirs.with_addrs(Some(peer), None));
    Client::builder("memory").plaintext().connect_over(ours).await.unwrap()
}

fn refused<T: std::fmt::Debug>(result: Result<T, RequestError<NoError>>) -> Status {
    match result {
        Err(RequestError::Status(status)) => status,
        other => panic!("a status was expected: {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_permission_that_is_missing_keeps_the_handler_from_running() {
    let (game, server) = game().await;
    let session = session(&server).await;
    let status = refused(session.request(Move(1)).await);
    assert_eq!((status.code, status.advice), (Code::PermissionDenied, Advice::Authenticate));
    session.request(Login { level: 99, account: 1 }).await.unwrap();
    let status = refused(session.request(Move(1)).await);
    assert_eq!((status.code, status.advice), (Code::PermissionDenied, Advice::None));
    assert_eq!(game.runs.load(SeqCst), 0);
    session.request(Login { level: 100, account: 1 }).await.unwrap();
    assert_eq!(session.request(Move(1)).await.unwrap(), 1);
    session.request(Login { level: 0, account: 1 }).await.unwrap();
    assert_eq!(refused(session.request(Move(1)).await).code, Code::PermissionDenied, "taken back");
}

#[tokio::test(start_paused = true)]
async fn a_permission_belongs_to_one_connection() {
    let (_, server) = game().await;
    let (one, other) = (session(&server).await, session(&server).await);
    one.request(Login { level: 255, account: 1 }).await.unwrap();
    one.request(Move(1)).await.unwrap();
    assert_eq!(refused(other.request(Move(1)).await).code, Code::PermissionDenied);
}

#[tokio::test(start_paused = true)]
async fn packets_behind_a_login_in_one_flight_have_what_it_gives() {
    let (_, server) = game().await;
    let session = session(&server).await;
    let (login, moved) =
        tokio::join!(async { session.request(Login { level: 100, account: 1 }).await }, async {
            session.request(Move(1)).await
        },);
    login.unwrap();
    assert_eq!(moved.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_payload_that_does_not_decode_is_not_looked_at_without_permission() {
    let (_, server) = game().await;
    let mut peer = RawPeer::connect(&server).await;
    peer.send(&[request(0, 0x1002, &[])]).await;
    assert_eq!(peer.status(0).await.code, Code::PermissionDenied);
}

#[tokio::test(start_paused = true)]
async fn what_the_packet_asks_for_holds_whatever_the_handler_says() {
    let (_, server) = game().await;
    let session = session(&server).await;
    session.request(Login { level: 174, account: 1 }).await.unwrap();
    assert_eq!(refused(session.request(Kick(String::new())).await).code, Code::PermissionDenied);
    session.request(Login { level: 175, account: 1 }).await.unwrap();
    session.request(Kick(String::new())).await.unwrap();
    assert_eq!(refused(session.request(Kick("too long".into())).await).code, Code::ResourceExhausted);
}

#[tokio::test(start_paused = true)]
async fn a_check_says_how_the_call_is_answered() {
    let (game, server) = game().await;
    let session = session(&server).await;
    let status = refused(session.request(Odd(0)).metadata("n", [2]).await);
    assert_eq!(status, Status::failed_precondition("odd numbers only"));
    assert_eq!(game.runs.load(SeqCst), 0);
    session.request(Odd(0)).metadata("n", [3]).await.unwrap();
    assert_eq!(game.runs.load(SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_check_that_panics_fails_its_call_alone() {
    let (_, server) = game().await;
    let session = session(&server).await;
    assert_eq!(refused(session.request(Panics).await).code, Code::Internal);
    session.request(InMemory).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_packet_may_have_as_many_bytes_as_it_says_and_no_more() {
    let (_, server) = game().await;
    let mut peer = RawPeer::connect(&server).await;
    // Not a list of bytes at all, so whoever decodes it says so.
    peer.send(&[request(0, 0x1005, &[0xff; 9])]).await;
    let answer = peer.status(0).await;
    assert_eq!((answer.code, answer.advice), (Code::ResourceExhausted, Advice::GiveUp));
    peer.send(&[request(1, 0x1005, &[0xff; 8])]).await;
    assert_eq!(peer.status(1).await.code, Code::Malformed);
}

#[tokio::test(start_paused = true)]
async fn a_packet_in_fragments_is_too_long_for_a_small_limit() {
    let (_, server) = game().await;
    let session = session(&server).await;
    assert_eq!(refused(session.request(Short(vec![0; 100_000])).await).code, Code::ResourceExhausted);
    assert_eq!(session.request(Short(vec![0; 4])).await.unwrap(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_packet_is_taken_over_the_links_that_its_handler_names() {
    let (_, server) = game().await;
    let session = session(&server).await;
    let status = refused(session.request(OverTcp).await);
    assert_eq!((status.code, status.advice), (Code::FailedPrecondition, Advice::GiveUp));
    session.request(InMemory).await.unwrap();
}

#[tokio::test]
async fn tcp_is_tcp() {
    let server = nalix_server::Server::builder().plaintext().tcp("127.0.0.1:0").controller(Game::default());
    let server = server.build().await.unwrap();
    let address = format!("tcp://{}", server.local_addr());
    let handle = server.handle();
    let running = tokio::spawn(server.run());
    let session = Client::builder(&address).no_reconnect().plaintext().connect().await.unwrap();
    session.request(OverTcp).await.unwrap();
    assert_eq!(refused(session.request(InMemory).await).code, Code::FailedPrecondition);
    handle.shutdown();
    soon(running).await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_rate_lets_a_burst_through_and_then_its_pace() {
    let (game, server) = game().await;
    let session = session(&server).await;
    for _ in 0..BURST {
        session.request(Rated).await.unwrap();
    }
    let status = refused(session.request(Rated).await);
    assert_eq!(status.code, Code::ResourceExhausted);
    assert_eq!(status.retry_after(), Some(Duration::from_millis(100)));
    assert!(status.is_retryable());
    assert_eq!(game.runs.load(SeqCst), BURST);
    advance(Duration::from_millis(99)).await;
    let status = refused(session.request(Rated).await);
    assert_eq!(status.retry_after(), Some(Duration::from_millis(1)), "what is refused costs nothing");
    advance(Duration::from_millis(1)).await;
    session.request(Rated).await.unwrap();
    advance(Duration::from_secs(1_000_000)).await;
    for _ in 0..BURST {
        session.request(Rated).await.unwrap();
    }
    assert_eq!(
        refused(session.request(Rated).await).code,
        Code::ResourceExhausted,
        "a burst, whatever the pause"
    );
}

#[tokio::test(start_paused = true)]
async fn sessions_do_not_share_a_rate_unless_they_are_to() {
    let (_, server) = game().await;
    let (one, other) = (session(&server).await, session(&server).await);
    for _ in 0..BURST {
        one.request(Rated).await.unwrap();
    }
    assert!(one.request(Rated).await.is_err());
    other.request(Rated).await.unwrap();
    other.request(Dear).await.unwrap();
    one.request(Dear).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_call_counts_for_what_it_costs() {
    let (_, server) = game().await;
    let session = session(&server).await;
    session.request(Dear).await.unwrap();
    session.request(Dear).await.unwrap();
    let status = refused(session.request(Dear).await);
    assert_eq!(status.retry_after(), Some(Duration::from_millis(200)), "one of two is left");
}

#[tokio::test(start_paused = true)]
async fn another_port_or_spelling_is_the_same_address() {
    let (_, server) = game().await;
    for peer in ["192.0.2.1:1", "[::ffff:192.0.2.1]:2"] {
        from(&server, peer).await.request(ByAddress).await.unwrap();
    }
    for port in 3..100 {
        let status = refused(from(&server, &format!("192.0.2.1:{port}")).await.request(ByAddress).await);
        assert_eq!(status.code, Code::ResourceExhausted);
    }
    for _ in 0..2 {
        from(&server, "[::ffff:192.0.2.2]:1").await.request(ByAddress).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn an_ipv6_network_of_64_bits_is_one_address() {
    let (_, server) = game().await;
    for host in 1..3 {
        from(&server, &format!("[2001:db8::{host}]:1")).await.request(ByAddress).await.unwrap();
    }
    assert!(from(&server, "[2001:db8::ffff]:1").await.request(ByAddress).await.is_err());
    from(&server, "[2001:db8:0:1::1]:1").await.request(ByAddress).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_user_is_one_on_all_connections() {
    let (_, server) = game().await;
    let mut passed = 0;
    for port in 1..5 {
        let session = from(&server, &format!("192.0.2.{port}:1")).await;
        session.request(Login { level: 0, account: 7 }).await.unwrap();
        passed += u32::from(session.request(ByIdentity).await.is_ok());
    }
    assert_eq!(passed, 2);
    let session = from(&server, "192.0.2.1:1").await;
    session.request(Login { level: 0, account: 8 }).await.unwrap();
    session.request(ByIdentity).await.unwrap();
    // Those who have not said who they are go by their address.
    for _ in 0..2 {
        from(&server, "192.0.2.1:1").await.request(ByIdentity).await.unwrap();
    }
    assert!(from(&server, "192.0.2.1:2").await.request(ByIdentity).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn refused_one_way_packets_are_traced_once_a_second_and_not_answered() {
    let recorder = Recorder::new();
    let _recording = tracing::subscriber::set_default(recorder.clone());
    let (game, server) = game().await;
    let mut peer = RawPeer::connect(&server).await;
    let lines =
        || recorder.lines().iter().filter(|line| line.text.contains("one-way packets are refused")).count();
    for _ in 0..100 {
        peer.send(&[notify(&Note(1))]).await;
    }
    peer.send(&[request(0, 0x1009, &[])]).await;
    let answer = peer.frame().await.unwrap();
    assert_eq!((answer.kind, answer.id.get()), (FrameKind::Reply, 0), "the only answer");
    assert_eq!((game.runs.load(SeqCst), lines()), (3, 1));
    advance(Duration::from_secs(2)).await;
    peer.send(&[notify(&Note(1))]).await;
    until("the next line is written", || lines() == 2).await;
    assert!(
        recorder.lines().iter().any(|line| line.text.contains("earlier=96")),
        "those in between are counted"
    );
}

#[tokio::test(start_paused = true)]
async fn more_handlers_do_not_refill_the_buckets_of_those_that_are_served() {
    #[packet(opcode = 0x1010, reply = ())]
    struct Other;
    struct Second;
    #[packet_controller]
    impl Second {
        #[packet(rate = "1/min")]
        fn other(&self, _: Other) {}
    }
    let (_, server) = game().await;
    let (ours, theirs) = memory::pair(64 * 1024);
    server.serve_link(theirs);
    let builder = Client::builder("memory").plaintext().controller(Game::default());
    let session = builder.connect_over(ours).await.unwrap();
    until("it is there", || server.connection_count() == 1).await;
    let connection = server.connections().remove(0);
    for _ in 0..BURST {
        connection.request(Rated).await.unwrap();
    }
    session.serve(Second).unwrap();
    connection.request(Other).await.unwrap();
    assert!(connection.request(Other).await.is_err());
    assert!(connection.request(Rated).await.is_err(), "a client keeps to its policies, too");
}
