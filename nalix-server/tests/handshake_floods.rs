//! Very many links that do not come to the end of their handshakes, and those who want in meanwhile.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use nalix_client::{Client, ConnectError, Session};
use nalix_core::{
    handshake::{self, ClientSecurity, Contracts, Initiator, MAX_HELLO, Params, Pinned},
    link::StreamLink,
    record::RecordKind,
    session::Inbound,
};
use nalix_server::{
    Advice, BuildError, ClientKeys, CloseCode, CloseReason, Context, GuardOptions, Identity, Options,
    PublicKey, Server, ServerBuilder, ServerHandle, packet, packet_controller,
};
use support::{Live, eventually, soon, until, within};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
    net::TcpStream,
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

#[packet(opcode = 0x1001, reply = u32)]
struct Double(u32);

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

    #[connected]
    fn connected(&self, _: &Context) {
        drop(self.connected.enter());
    }
}

struct World {
    server: ServerHandle,
    key: PublicKey,
    me: Identity,
    game: Game,
    /// How many hellos have been opened of clients with a key.
    opened: Arc<AtomicUsize>,
}

impl World {
    async fn new(set: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Self {
        let (identity, me) = (Identity::generate().unwrap(), Identity::generate().unwrap());
        let (key, game, opened) = (identity.public_key(), Game::default(), Arc::<AtomicUsize>::default());
        let count = Arc::clone(&opened);
        let keys = ClientKeys::accepted(move |_| {
            count.fetch_add(1, Relaxed);
            true
        });
        let builder = Server::builder().identity(identity).client_keys(keys).controller(game.clone());
        let mut guard = GuardOptions::default();
        // Everybody is told why, also if somebody else from there was a moment ago.
        guard.refusal_interval = Duration::ZERO;
        let server = set(builder.no_listener().guard(guard)).build().await.unwrap();
        Self { server: server.spawn().0, key, me, game, opened }
    }

    /// A link from this address on which nothing has been said.
    fn link(&self, from: SocketAddr) -> DuplexStream {
        let (ours, theirs) = duplex(4 * 1024);
        self.server.serve_link(StreamLink::new(theirs).with_addrs(Some(from), None));
        ours
    }

    /// The hello of a client with a key.
    fn hello(&self) -> Vec<u8> {
        let mut pinned = Pinned::new(self.key);
        pinned.identity = Some(self.me.clone());
        let params = Params::new(1_000, 10, Contracts::default());
        Initiator::start(params, &ClientSecurity::Secured(pinned), &[]).unwrap().1
    }

    async fn connect(&self, from: SocketAddr) -> Result<Session, ConnectError> {
        let client = Client::builder("").server_key(self.key).identity(self.me.clone());
        soon(client.connect_over(StreamLink::new(self.link(from)))).await
    }

    /// A client comes, asks and goes.
    async fn serves(&self, from: SocketAddr) {
        let session = self.connect(from).await.expect("there is a place");
        assert_eq!(session.request(Double(4)).await.unwrap(), 8);
        session.close().await;
    }
}

fn address(n: usize) -> SocketAddr {
    let ip = Ipv4Addr::from_bits(0x0a00_0000 + u32::try_from(n).unwrap());
    SocketAddr::new(ip.into(), 40_000)
}

fn parse(address: &str) -> SocketAddr {
    address.parse().unwrap()
}

/// Why a link is turned away, with the answer to its hello left out if there is one; `None` if it is sealed. Then the end.
async fn told(link: &mut (impl AsyncReadExt + Unpin)) -> Option<CloseReason> {
    let mut bytes = Vec::new();
    soon(link.read_to_end(&mut bytes)).await.unwrap();
    let mut inbound = Inbound::new(MAX_HELLO);
    inbound.buffer().extend_from_slice(&bytes);
    loop {
        match inbound.next_record() {
            Ok(Some(record)) if record.kind == RecordKind::Abort => {
                return Some(handshake::read_abort(&record.body));
            }
            Ok(Some(record)) => assert_eq!(record.kind, RecordKind::HelloReply),
            // It has no keys to open a sealed one with.
            Err(_) => return None,
            Ok(None) => panic!("not told"),
        }
    }
}

/// Whether nothing is said to it for as long as it takes for everything else to happen.
async fn is_let_in(link: &mut DuplexStream) -> bool {
    timeout(Duration::from_millis(100), link.read_u8()).await.is_err()
}

fn is_refused(reason: &CloseReason) -> bool {
    reason.code == CloseCode::LimitExceeded
        && reason.advice == Advice::Retry { after: Some(Duration::from_secs(1)) }
}

#[tokio::test(start_paused = true)]
async fn three_thousand_links_that_get_nowhere_hold_nobody_up_and_are_cut_off_in_time() {
    let world = World::new(|server| server).await;
    let hello = world.hello();
    let start = Instant::now();
    let mut links = JoinSet::new();
    for n in 0..3_000 {
        // 200 from each address, which is below what is allowed.
        let mut link = world.link(address(n / 200));
        let hello = hello.clone();
        links.spawn(async move {
            let code = match n {
                0..2_000 => told(&mut link).await.map(|reason| reason.code),
                // One byte now and then.
                2_000..2_500 => {
                    let (mut read, mut write) = tokio::io::split(link);
                    let talking = tokio::spawn(async move {
                        for byte in hello {
                            if write.write_all(&[byte]).await.is_err() {
                                break;
                            }
                            sleep(Duration::from_millis(700)).await;
                        }
                    });
                    let told = told(&mut read).await.map(|reason| reason.code);
                    talking.abort();
                    told
                }
                // It says nothing to the answer.
                _ => {
                    link.write_all(&hello).await.unwrap();
                    told(&mut link).await.map(|reason| reason.code)
                }
            };
            (n, code, start.elapsed().as_secs())
        });
    }
    let mut good = 0;
    while start.elapsed() < Duration::from_secs(12) {
        let before = Instant::now();
        world.serves(address(100 + good)).await;
        assert!(before.elapsed() < Duration::from_millis(100), "a client has had to wait");
        good += 1;
        sleep(Duration::from_millis(900)).await;
    }
    let mut cut = 0;
    while let Some(ended) = links.join_next().await {
        let (n, code, seconds) = ended.unwrap();
        let expected = (n < 2_500).then_some(CloseCode::HandshakeTimeout);
        assert_eq!((code, seconds), (expected, 10), "link {n}");
        cut += 1;
    }
    assert_eq!((cut, world.game.connected.entered()), (3_000, good));
    until("empty", || world.server.connection_count() == 0).await;
    // All places are free again, those of each address and all together.
    let mut again: Vec<_> = (0..256).map(|_| world.link(address(0))).collect();
    assert!(is_let_in(&mut again[0]).await && is_let_in(&mut again[255]).await);
    assert!(is_refused(&told(&mut world.link(address(0))).await.unwrap()));
}

#[tokio::test(start_paused = true)]
async fn limits_hold_exactly_and_places_are_given_back() {
    let world = World::new(|server| server.max_handshakes(8).max_handshakes_per_address(3)).await;
    let [a, b, c, d] = [parse("10.0.0.1:1"), parse("[2001:db8:0:1::1]:1"), parse("10.0.0.3:1"), address(99)];
    // Who counts as the same: a mapped address, another port, another host of one network.
    let same_as_a = [parse("[::ffff:10.0.0.1]:1"), parse("10.0.0.1:2"), a];
    let same_as_b = [parse("[2001:db8:0:1:ffff::9]:1"), parse("[2001:db8:0:1::1]:2"), b];

    let mut held = Vec::new();
    for (first, same) in [(a, same_as_a), (b, same_as_b)] {
        // An established connection does not count.
        let session = world.connect(first).await.unwrap();
        for from in same {
            held.push(world.link(from));
            assert!(is_let_in(held.last_mut().unwrap()).await, "{from}");
        }
        for from in same {
            let reason = told(&mut world.link(from)).await.unwrap();
            assert!(is_refused(&reason) && reason.message.contains("this address"), "{from}: {reason}");
        }
        assert_eq!(session.request(Double(1)).await.unwrap(), 2);
        session.close().await;
    }
    world.serves(c).await;
    held.extend([world.link(c), world.link(c)]);
    for link in &mut held {
        assert!(is_let_in(link).await);
    }
    // Eight are there: nobody else comes in, from wherever.
    for from in [a, b, c, d] {
        let reason = told(&mut world.link(from)).await.unwrap();
        assert!(is_refused(&reason) && !reason.message.contains("this address"), "{from}: {reason}");
    }
    let error = world.connect(d).await.unwrap_err();
    assert!(matches!(&error, ConnectError::Refused(reason) if is_refused(reason)), "{error:?}");
    assert!(error.is_retryable());

    // One goes, one comes.
    drop(held.remove(0));
    sleep(Duration::from_millis(1)).await;
    assert!(told(&mut world.link(b)).await.unwrap().message.contains("this address"));
    world.serves(d).await;
    held.push(world.link(a));
    assert!(is_let_in(held.last_mut().unwrap()).await);
    assert!(is_refused(&told(&mut world.link(d)).await.unwrap()));

    // The time is over for all of them.
    for link in &mut held {
        assert_eq!(told(link).await.unwrap().code, CloseCode::HandshakeTimeout);
    }
    drop(held);
    sleep(Duration::from_secs(2)).await;
    let mut all: Vec<_> = (0..8).map(|n| world.link(address(n))).collect();
    for link in &mut all {
        assert!(is_let_in(link).await);
    }
    assert!(is_refused(&told(&mut world.link(d)).await.unwrap()));
}

/// Opening a hello costs more than anything else here, so it is not done for those who are turned away.
#[tokio::test(start_paused = true)]
async fn the_hello_of_a_link_that_is_turned_away_is_not_opened() {
    let world = World::new(|server| server.max_handshakes(2).max_handshakes_per_address(1)).await;
    let hello = world.hello();
    let mut held = vec![world.link(address(1))];
    held[0].write_all(&hello).await.unwrap();
    until("opened", || world.opened.load(Relaxed) == 1).await;
    let refused = async |from| {
        for _ in 0..50 {
            let mut link = world.link(from);
            link.write_all(&hello).await.unwrap();
            // Nothing comes before the refusal.
            let mut first = [0];
            soon(link.read_exact(&mut first)).await.unwrap();
            assert_eq!(first, [5], "an abort");
        }
    };
    refused(address(1)).await;
    held.push(world.link(address(2)));
    assert!(is_let_in(held.last_mut().unwrap()).await);
    refused(address(3)).await;
    assert_eq!(world.opened.load(Relaxed), 1);
    assert_eq!((world.server.connection_count(), world.game.connected.entered()), (0, 0));
    drop(held);
    sleep(Duration::from_secs(2)).await;
    world.serves(address(3)).await;
    assert_eq!(world.opened.load(Relaxed), 2);
}

#[tokio::test]
async fn limits_of_zero_are_refused_when_the_server_is_built() {
    let server = || Server::builder().identity(Identity::generate().unwrap()).no_listener();
    for (builder, name) in [
        (server().max_handshakes(0), "max_handshakes"),
        (server().max_handshakes_per_address(0), "max_handshakes_per_address"),
    ] {
        let error = builder.controller(Game::default()).build().await.unwrap_err();
        assert!(matches!(&error, BuildError::Zero { option } if *option == name), "{error:?}");
    }
    // One is enough, and so is any number.
    for n in [1, usize::MAX] {
        let world = World::new(|server| server.max_handshakes(n).max_handshakes_per_address(n)).await;
        world.serves(address(1)).await;
        world.serves(address(1)).await;
    }
}

/// Real sockets, all from one address.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sockets_that_say_nothing_are_cut_off_and_their_places_given_back() {
    let mut options = Options::default();
    options.handshake_timeout = Duration::from_secs(3);
    let world =
        World::new(|server| server.tcp("127.0.0.1:0").max_handshakes_per_address(50).options(options)).await;
    let address = world.server.local_addrs()[0];
    let client = || {
        Client::builder(format!("tcp://{address}"))
            .no_reconnect()
            .server_key(world.key)
            .identity(world.me.clone())
    };
    let mut silent = Vec::new();
    for n in 0..150 {
        silent.push(TcpStream::connect(address).await.unwrap());
        if n == 20 {
            let session = client().connect().await.unwrap();
            assert_eq!(session.request(Double(4)).await.unwrap(), 8);
            session.close().await;
        }
    }
    let (mut refused, mut cut) = (0, 0);
    for mut link in silent {
        match told(&mut link).await.unwrap() {
            reason if is_refused(&reason) => refused += 1,
            reason if reason.code == CloseCode::HandshakeTimeout => cut += 1,
            reason => panic!("{reason}"),
        }
    }
    // Some may have been cut off before the last came, on a machine that is very slow.
    assert!(cut >= 50 && refused + cut == 150, "{cut} and {refused}");
    // A place is given back when the server has seen that the link is gone.
    let session = within("a place", async {
        loop {
            match client().connect().await {
                Err(ConnectError::Refused(reason)) if is_refused(&reason) => {
                    sleep(Duration::from_millis(1)).await;
                }
                done => break done.unwrap(),
            }
        }
    })
    .await;
    assert_eq!(session.request(Double(4)).await.unwrap(), 8);
    session.close().await;
    eventually("empty", || world.server.connection_count() == 0).await;
}
