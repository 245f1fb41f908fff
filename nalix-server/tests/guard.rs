//! Whom a server lets in, by address: over links in memory, in time that stands still.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{net::SocketAddr, time::Duration};

use nalix_client::{Client, ConnectError, Session};
use nalix_core::{
    handshake::{self, MAX_HELLO},
    link::StreamLink,
    record::RecordKind,
    session::Inbound,
};
use nalix_server::{
    Advice, BanCause, CloseCode, CloseReason, Context, Guard, GuardOptions, Options, RefusalCause, Server,
    ServerBuilder, ServerHandle, State, packet, packet_controller,
};
use support::{record, request, soon, until};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
    net::TcpStream,
    time::{Instant, advance},
};

#[packet(opcode = 0x1001, reply = u32)]
struct Double(u32);

#[packet(opcode = 0x1002, reply = bool)]
struct BanMe;

struct Game {
    panics: bool,
}

#[packet_controller]
impl Game {
    #[packet]
    fn double(&self, Double(n): Double) -> u32 {
        n * 2
    }

    #[packet]
    fn ban_me(&self, ctx: &Context, guard: State<Guard>, _: BanMe) -> bool {
        let address = ctx.connection().peer_addr().expect("clients here have addresses");
        guard.ban(address.ip(), Duration::from_secs(60))
    }

    #[connected]
    fn connected(&self, _: &Context) {
        assert!(!self.panics, "on purpose");
    }
}

struct World {
    server: ServerHandle,
}

impl World {
    async fn new(set: impl FnOnce(&mut GuardOptions)) -> Self {
        Self::with(set, |builder| builder).await
    }

    async fn with(
        set: impl FnOnce(&mut GuardOptions),
        build: impl FnOnce(ServerBuilder) -> ServerBuilder,
    ) -> Self {
        Self::serving(Game { panics: false }, set, build).await
    }

    async fn serving(
        game: Game,
        set: impl FnOnce(&mut GuardOptions),
        build: impl FnOnce(ServerBuilder) -> ServerBuilder,
    ) -> Self {
        let mut guard = GuardOptions::default();
        set(&mut guard);
        let builder = Server::builder().plaintext().no_listener().controller(game).guard(guard);
        Self { server: build(builder).build().await.unwrap().spawn().0 }
    }

    fn guard(&self) -> Guard {
        self.server.guard()
    }

    /// A link from this address on which nothing has been said.
    fn link(&self, from: &str) -> DuplexStream {
        let (ours, theirs) = duplex(1 << 16);
        self.server.serve_link(StreamLink::new(theirs).with_addrs(Some(address(from)), None));
        ours
    }

    async fn connect(&self, from: &str) -> Result<Session, ConnectError> {
        let client = Client::builder("").plaintext();
        soon(client.connect_over(StreamLink::new(self.link(from)))).await
    }

    async fn serves(&self, from: &str) {
        let session = self.connect(from).await.expect("it is let in");
        assert_eq!(session.request(Double(4)).await.unwrap(), 8);
        session.close().await;
        self.has_links(from, 0).await;
    }

    async fn is_refused(&self, from: &str, cause: RefusalCause) {
        let before = self.guard().refused(cause);
        let error = self.connect(from).await.expect_err("it is turned away");
        assert!(matches!(error, ConnectError::Refused(_) | ConnectError::Io(_)), "{from}: {error}");
        assert_eq!(self.guard().refused(cause), before + 1, "{from}");
    }

    async fn has_links(&self, from: &str, n: usize) {
        let ip = address(from).ip();
        until("links", || self.guard().links_from(ip) == n).await;
    }
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap_or_else(|_| SocketAddr::new(text.parse().unwrap(), 1_000))
}

/// What the server says, to the end: why it turns the link away, if it says so.
async fn told(link: &mut (impl AsyncReadExt + Unpin)) -> Option<CloseReason> {
    let mut bytes = Vec::new();
    drop(soon(link.read_to_end(&mut bytes)).await);
    let mut inbound = Inbound::new(MAX_HELLO);
    inbound.buffer().extend_from_slice(&bytes);
    let record = inbound.next_record().unwrap()?;
    assert_eq!(record.kind, RecordKind::Abort);
    Some(handshake::read_abort(&record.body))
}

#[tokio::test(start_paused = true)]
async fn lists_decide_first_and_are_exchanged_while_the_server_runs() {
    let world = World::new(|guard| {
        guard.deny = vec!["10.0.0.0/8".parse().unwrap()];
        guard.refusal_interval = Duration::ZERO;
    })
    .await;
    let stays = world.connect("192.0.2.1").await.unwrap();
    world.is_refused("10.1.2.3", RefusalCause::Denied).await;
    world.is_refused("::ffff:10.1.2.3", RefusalCause::Denied).await;
    let reason = told(&mut world.link("10.9.9.9")).await.unwrap();
    assert_eq!((reason.code, reason.advice), (CloseCode::LimitExceeded, Advice::GiveUp));

    let allow = vec!["10.0.0.0/8".parse().unwrap(), "2001:db8::/32".parse().unwrap()];
    world.guard().set_lists(allow.clone(), vec!["10.0.0.1".parse().unwrap()]);
    assert_eq!(world.guard().allow_list(), allow);
    world.serves("10.1.2.3").await;
    world.serves("2001:db8::1").await;
    for from in ["10.0.0.1", "192.0.2.1", "127.0.0.1", "[2001:db9::1]:5"] {
        world.is_refused(from, RefusalCause::Denied).await;
    }
    // Whoever is inside stays.
    assert_eq!(stays.request(Double(1)).await.unwrap(), 2);
    // A link that has no address is the program's own.
    let (ours, theirs) = duplex(1 << 16);
    world.server.serve_link(StreamLink::new(theirs));
    assert!(soon(Client::builder("").plaintext().connect_over(StreamLink::new(ours))).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_client_is_one_on_every_port_and_in_every_spelling_and_no_two_are_one() {
    let world = World::new(|guard| {
        (guard.max_connections_per_address, guard.refusal_interval) = (2, Duration::ZERO);
    })
    .await;
    let limited = RefusalCause::TooManyFromAddress;
    for (same, others) in [
        (["10.0.0.1:1", "[::ffff:10.0.0.1]:2", "10.0.0.1:3"], ["10.0.0.2", "::ffff:10.0.0.3"]),
        (["[2001:db8::1]:1", "[2001:db8::ffff:2]:2", "[2001:db8::1]:3"], ["2001:db8:0:1::1", "2001:db9::1"]),
        (["[fe80::1]:1", "[fe80::2%3]:2", "[fe80::1%4]:3"], ["fe81::1", "::ffff:169.254.0.1"]),
    ] {
        let held = [world.connect(same[0]).await.unwrap(), world.connect(same[1]).await.unwrap()];
        for from in same {
            world.is_refused(from, limited).await;
        }
        for from in others {
            world.serves(from).await;
        }
        // Those who are inside do not notice.
        for session in &held {
            assert_eq!(session.request(Double(1)).await.unwrap(), 2);
        }
        held[0].close().await;
        world.has_links(same[0], 1).await;
        let third = world.connect(same[2]).await.unwrap();
        world.is_refused(same[1], limited).await;
        drop((held, third));
        world.has_links(same[0], 0).await;
    }
}

#[tokio::test(start_paused = true)]
async fn connections_that_come_too_fast_wait_their_turn_and_refusals_cost_nothing() {
    let world = World::new(|guard| {
        (guard.connects_per_second, guard.connect_burst) = (2, 3);
        guard.refusal_interval = Duration::ZERO;
    })
    .await;
    for port in 1..=3 {
        world.serves(&format!("10.0.0.1:{port}")).await;
    }
    for port in 4..104 {
        let reason = told(&mut world.link(&format!("10.0.0.1:{port}"))).await.unwrap();
        let Advice::Retry { after: Some(after) } = reason.advice else { panic!("{reason:?}") };
        assert!(after <= Duration::from_millis(500) && !after.is_zero(), "{after:?}");
    }
    assert_eq!(world.guard().refused(RefusalCause::TooFastFromAddress), 100);
    world.serves("10.0.0.2").await;
    advance(Duration::from_millis(500)).await;
    world.serves("10.0.0.1:200").await;
    world.is_refused("10.0.0.1:201", RefusalCause::TooFastFromAddress).await;
}

#[tokio::test(start_paused = true)]
async fn loopback_and_exempt_networks_are_not_counted_unless_they_are_to_be() {
    let strict = |guard: &mut GuardOptions| {
        (guard.max_connections_per_address, guard.ban_after) = (0, 0);
        guard.exempt = vec!["10.0.0.0/8".parse().unwrap()];
    };
    let world = World::new(strict).await;
    for from in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "10.1.1.1"] {
        world.serves(from).await;
        assert!(!world.guard().report_fault(address(from).ip()));
    }
    world.is_refused("11.0.0.1", RefusalCause::TooManyFromAddress).await;
    // An operator's word counts for all.
    assert!(world.guard().ban(address("127.0.0.1").ip(), Duration::from_secs(5)));
    world.is_refused("::ffff:127.0.0.1", RefusalCause::Banned).await;
    let world = World::new(|guard| {
        strict(guard);
        guard.exempt_loopback = false;
    })
    .await;
    world.is_refused("127.0.0.1", RefusalCause::TooManyFromAddress).await;
    world.serves("10.1.1.1").await;
}

#[tokio::test(start_paused = true)]
async fn a_ban_of_an_address_holds_for_its_mapped_form_and_ends_by_itself_or_by_hand() {
    let world = World::new(|guard| guard.refusal_interval = Duration::ZERO).await;
    let guard = world.guard();
    let neighbour = world.connect("::ffff:10.0.0.1").await.unwrap();
    assert!(guard.ban(address("10.0.0.1").ip(), Duration::from_secs(10)));
    assert!(guard.ban(address("2001:db8::1").ip(), Duration::MAX));
    for n in 0..10 {
        for from in ["10.0.0.1:7", "[::ffff:10.0.0.1]:8", "[2001:db8::2]:9"] {
            world.is_refused(from, RefusalCause::Banned).await;
        }
        let left = guard.banned(address("10.0.0.1").ip()).unwrap();
        assert_eq!(left.as_secs(), 10 - n, "a refusal must not extend it");
        // Whoever was there stays.
        assert_eq!(neighbour.request(Double(3)).await.unwrap(), 6);
        advance(Duration::from_secs(1)).await;
    }
    world.connect("10.0.0.1").await.unwrap().close().await;
    let bans = guard.bans();
    assert_eq!(bans.len(), 1);
    assert_eq!((bans[0].address.to_string().as_str(), bans[0].cause), ("2001:db8::/64", BanCause::Explicit));
    world.serves("2001:db8:0:1::1").await;
    assert!(guard.lift(address("2001:db8::77").ip()) && !guard.lift(address("2001:db8::1").ip()));
    world.serves("2001:db8::1").await;
}

#[tokio::test(start_paused = true)]
async fn a_handler_may_ban_its_own_client_and_the_hub_closes_who_is_inside() {
    let world = World::new(|_| {}).await;
    let [a, b, c] = ["10.0.0.1:1", "[::ffff:10.0.0.1]:2", "10.0.0.2:1"];
    let sessions = [world.connect(a).await.unwrap(), world.connect(b).await.unwrap()];
    let other = world.connect(c).await.unwrap();
    assert!(sessions[0].request(BanMe).await.unwrap());
    world.is_refused(a, RefusalCause::Banned).await;
    let reason = CloseReason::new(CloseCode::LimitExceeded, "banned");
    assert_eq!(world.server.hub().close_address(address(a).ip(), &reason), 2);
    for session in sessions {
        assert_eq!(soon(session.closed()).await.code, CloseCode::LimitExceeded);
    }
    assert_eq!(other.request(Double(1)).await.unwrap(), 2);
}

/// In the handshake and after it: bytes that are no records, and packets that do not decode.
#[tokio::test(start_paused = true)]
async fn addresses_whose_connections_are_closed_for_faults_too_often_are_banned() {
    let mut options = Options::default();
    options.max_malformed = 3;
    let world = World::with(
        |guard| {
            (guard.ban_after, guard.ban_window) = (4, Duration::from_secs(60));
            (guard.ban_time, guard.refusal_interval) = (Duration::from_secs(30), Duration::ZERO);
        },
        |builder| builder.options(options),
    )
    .await;
    let from = "10.0.0.1";
    let neighbour = world.connect(from).await.unwrap();
    // Whoever is cut off, goes, or is refused is not at fault.
    for _ in 0..20 {
        drop(world.link(from));
        let mut cut = world.link(from);
        cut.write_all(&support::RawPeer::hello()[..9]).await.unwrap();
        drop(cut);
        world.connect(from).await.unwrap().close().await;
        world.has_links(from, 1).await;
    }
    assert!(world.guard().bans().is_empty());
    for n in 0..5 {
        assert!(world.guard().bans().is_empty(), "{n}");
        let mut link = world.link(from);
        if n % 2 == 0 {
            link.write_all(b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n").await.unwrap();
            assert_eq!(told(&mut link).await.unwrap().code, CloseCode::ProtocolError);
        } else {
            link.write_all(&support::RawPeer::hello()).await.unwrap();
            let bad: Vec<Vec<u8>> = (0..8).map(|id| request(id, 0x1001, &[1])).collect();
            link.write_all(&record(&bad)).await.unwrap();
            drop(soon(link.read_to_end(&mut Vec::new())).await);
        }
        drop(link);
        world.has_links(from, 1).await;
    }
    let bans = world.guard().bans();
    assert_eq!((bans.len(), bans[0].cause), (1, BanCause::Faults));
    world.is_refused(from, RefusalCause::Banned).await;
    world.serves("10.0.0.2").await;
    assert_eq!(neighbour.request(Double(2)).await.unwrap(), 4, "neighbours stay");
    advance(Duration::from_secs(31)).await;
    world.connect(from).await.unwrap().close().await;
}

#[tokio::test(start_paused = true)]
async fn refusals_are_told_once_in_an_interval_and_for_each_cause_then_links_close_silently() {
    let world = World::with(
        |guard| {
            (guard.max_connections_per_address, guard.refusal_interval) = (1, Duration::from_secs(5));
        },
        |builder| builder.max_connections(2),
    )
    .await;
    let [_held, _other] = ["10.0.0.1", "10.0.0.2"].map(|from| world.link(from));
    world.has_links("10.0.0.1", 1).await;
    world.has_links("10.0.0.2", 1).await;
    let start = Instant::now();
    for _ in 0..3 {
        assert_eq!(told(&mut world.link("10.0.0.1")).await.unwrap().code, CloseCode::LimitExceeded);
        for _ in 0..50 {
            assert_eq!(told(&mut world.link("10.0.0.1")).await, None);
        }
        // Another address, and another cause.
        assert!(told(&mut world.link("10.0.0.3")).await.unwrap().message.contains("too many connections"));
        assert_eq!(told(&mut world.link("10.0.0.3")).await, None);
        assert!(start.elapsed() < Duration::from_secs(4 * 5));
        advance(Duration::from_secs(5)).await;
    }
    // Nobody counts as refused twice, told or not.
    assert_eq!(world.guard().refused(RefusalCause::TooManyFromAddress), 153);
    assert_eq!((world.guard().refused(RefusalCause::Full), world.server.refused_count()), (6, 6));
    // Who is exempt is always told.
    for _ in 0..3 {
        assert!(told(&mut world.link("127.0.0.1")).await.is_some());
    }
}

/// A slot that is kept after a stalled or failed handshake fills the server up until it is started anew.
#[tokio::test(start_paused = true)]
async fn no_way_to_end_leaks_a_place_of_an_address_or_of_the_server() {
    for panics in [false, true] {
        let world = World::serving(
            Game { panics },
            |guard| {
                (guard.max_connections_per_address, guard.ban_after) = (10, u32::MAX);
                guard.refusal_interval = Duration::ZERO;
            },
            |builder| builder.max_connections(20).max_handshakes(20),
        )
        .await;
        let from = "10.0.0.1";
        for round in 0..6 {
            let mut links: Vec<_> = (0..10).map(|_| world.link(from)).collect();
            world.has_links(from, 10).await;
            world.is_refused(from, RefusalCause::TooManyFromAddress).await;
            for link in &mut links {
                match round {
                    // Nothing is said until the time is over.
                    0 => {}
                    1 => link.write_all(&[0xff; 64]).await.unwrap(),
                    2 => link.write_all(&support::RawPeer::hello()[..5]).await.unwrap(),
                    3 => link.shutdown().await.unwrap(),
                    // The hook panics, or the connection is open.
                    _ => link.write_all(&support::RawPeer::hello()).await.unwrap(),
                }
            }
            if matches!(round, 0 | 1) {
                for link in &mut links {
                    assert!(told(link).await.is_some());
                }
            }
            drop(links);
            tokio::time::sleep(Duration::from_secs(20)).await;
            assert_eq!(world.guard().links_from(address(from).ip()), 0, "round {round}");
            assert_eq!((world.server.connection_count(), world.guard().bans().len()), (0, 0));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn absurd_limits_do_what_they_say() {
    let nobody = World::new(|guard| guard.max_connections_per_address = 0).await;
    nobody.is_refused("10.0.0.1", RefusalCause::TooManyFromAddress).await;
    let one = World::new(|guard| (guard.connects_per_second, guard.connect_burst) = (0, 0)).await;
    one.serves("10.0.0.1").await;
    one.is_refused("10.0.0.1", RefusalCause::TooFastFromAddress).await;
    let all = World::new(|guard| {
        (guard.max_connections_per_address, guard.max_addresses) = (usize::MAX, usize::MAX);
        (guard.connects_per_second, guard.connect_burst) = (u32::MAX, u32::MAX);
        (guard.ban_window, guard.ban_time) = (Duration::MAX, Duration::MAX);
        (guard.refusal_interval, guard.proxy_timeout) = (Duration::MAX, Duration::MAX);
        guard.max_proxy_header = usize::MAX;
    })
    .await;
    for _ in 0..100 {
        all.serves("10.0.0.1").await;
    }
    let few = World::new(|guard| (guard.max_addresses, guard.max_proxy_header) = (0, 0)).await;
    for n in 1..255 {
        few.serves(&format!("10.0.0.{n}")).await;
        assert!(few.guard().known_addresses() <= 64);
    }
}

/// The limits of one address are decided before those of all: who is turned away takes nobody's room.
#[tokio::test(start_paused = true)]
async fn a_banned_address_does_not_take_room_for_handshakes_or_connections() {
    let world = World::with(
        |guard| guard.refusal_interval = Duration::ZERO,
        |builder| builder.max_connections(2).max_handshakes(1),
    )
    .await;
    assert!(world.guard().ban(address("10.0.0.1").ip(), Duration::from_secs(3_600)));
    let mut refused: Vec<_> = (0..200).map(|_| world.link("10.0.0.1")).collect();
    world.serves("10.0.0.2").await;
    for link in &mut refused {
        assert!(told(link).await.is_some());
    }
    assert_eq!(world.guard().refused(RefusalCause::Banned), 200);
    assert_eq!(
        (world.guard().refused(RefusalCause::Full), world.guard().refused(RefusalCause::Handshakes)),
        (0, 0)
    );
}

/// A socket on `[::]` shows IPv4 clients as IPv6, and the loopback address is only exempt if it is to be.
#[tokio::test]
async fn a_ban_holds_on_a_dual_stack_socket() {
    let world = World::with(|_| {}, |builder| builder.tcp("[::]:0")).await;
    let port = world.server.local_addrs()[0].port();
    assert!(world.guard().ban(address("127.0.0.1").ip(), Duration::from_secs(60)));
    let mut link = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    assert!(told(&mut link).await.unwrap().message.contains("banned"));
    let session = soon(Client::builder(format!("tcp://[::1]:{port}")).no_reconnect().plaintext().connect())
        .await
        .unwrap();
    assert_eq!(session.request(Double(2)).await.unwrap(), 4);
}
