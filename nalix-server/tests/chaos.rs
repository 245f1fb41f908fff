//! Everything that a session carries, numbered, over links that break all the time: nothing may be lost, doubled or out of order.
//!
//! Each run prints its seed. One with the same seed has links that break at the same bytes, though tasks may run in another order. The
//! long run takes half a minute:
//!
//!     cargo test --release -p nalix-server --test chaos -- --ignored --nocapture

use std::{
    future::ready,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use nalix_client::{Client, ReconnectOptions, Session};
use nalix_core::link::faults::{Faults, Network};
use nalix_server::{
    Context, HubExt, Identity, Incoming, Options, Server, ServerHandle, Stream, packet, packet_controller,
    stream,
};

#[packet(opcode = 0x3001)]
struct Command(u32, [u8; 80]);

#[packet(opcode = 0x3002)]
struct Pushed(u32, [u8; 80]);

#[packet(opcode = 0x3003)]
struct Shared(u32, [u8; 80]);

#[packet(opcode = 0x1001, reply = u32)]
struct Ask(u32);

#[packet(opcode = 0x4001, stream = u32)]
struct Down(u32);

#[packet(opcode = 0x4002, upload = u32, reply = u32)]
struct Up;

/// What has been seen at both ends. Panics of handlers and listeners are caught, so what is wrong is kept here.
#[derive(Default)]
struct Seen {
    wrong: Mutex<Vec<String>>,
    /// How many listeners have heard everything.
    finished: AtomicUsize,
    commands: AtomicU32,
    asked: AtomicU32,
    connected: AtomicUsize,
    resumed: AtomicUsize,
}

impl Seen {
    fn check(&self, what: &str, expected: u32, found: u32) {
        if expected != found {
            self.wrong.lock().unwrap().push(format!("{what}: {found} instead of {expected}"));
        }
    }
}

struct Game {
    seen: Arc<Seen>,
    count: u32,
}

#[packet_controller]
impl Game {
    #[connected]
    fn hello(&self, ctx: &Context) {
        self.seen.connected.fetch_add(1, Relaxed);
        ctx.hub().group("all").join(ctx);
        let (ctx, count) = (ctx.clone(), self.count);
        tokio::spawn(async move {
            for n in 0..count {
                if ctx.send(&Pushed(n, PAD)).await.is_err() {
                    return;
                }
            }
        });
    }

    #[resumed]
    fn back(&self, _: &Context) {
        self.seen.resumed.fetch_add(1, Relaxed);
    }

    #[packet]
    fn command(&self, Command(n, _): Command) {
        self.seen.check("commands", self.seen.commands.fetch_add(1, Relaxed), n);
    }

    #[packet]
    fn ask(&self, Ask(n): Ask) -> u32 {
        self.seen.check("requests", self.seen.asked.fetch_add(1, Relaxed), n);
        n + 1
    }

    #[packet]
    fn down(&self, Down(n): Down) -> impl Stream<Item = u32> + use<> {
        stream::iter(0..n)
    }

    #[packet(concurrent)]
    async fn up(&self, _: Up, mut chunks: Incoming<u32>) -> u32 {
        let mut next = 0;
        while let Some(chunk) = chunks.next().await {
            self.seen.check("chunks", next, chunk.unwrap());
            next += 1;
        }
        next
    }
}

/// So that there is something to be cut.
const PAD: [u8; 80] = [7; 80];

struct Run {
    seed: u64,
    /// How many of each kind.
    count: u32,
    /// Links break within so many bytes in one direction.
    within: usize,
    sealed: bool,
}

/// Returns how often the session has gone on over another link.
async fn run(Run { seed, count, within, sealed }: Run) -> usize {
    println!("seed {seed}, {count} of each, links break within {within} bytes, sealed: {sealed}");
    let seen = Arc::<Seen>::default();
    // Records are read as a whole, so links must last for longer than one takes.
    let options = Options::default().outbox(2_000).stream_window(1_000);
    let mut server = Server::builder()
        .no_listener()
        .options(options.clone())
        .controller(Game { seen: Arc::clone(&seen), count });
    let mut client = Client::builder("chaos").options(options.request_timeout(None));
    if sealed {
        let identity = Identity::generate().unwrap();
        client = client.server_key(identity.public_key());
        server = server.identity(identity);
    } else {
        (client, server) = (client.plaintext(), server.plaintext());
    }
    let server = server.build().await.unwrap().handle();
    let network = Network::new(Faults::new(seed).break_within(within).pieces(400));
    let accepting = tokio::spawn({
        let (network, server) = (network.clone(), server.clone());
        async move {
            loop {
                server.serve_link(network.accept().await);
            }
        }
    });
    let ms = Duration::from_millis;
    let reconnect = ReconnectOptions::default().first_delay(ms(1)).max_delay(ms(5)).first_connect(true);
    let dialing = network.clone();
    // The first link is whole for as long as it takes to get there: before that there is no session to lose.
    network.set_faults(Faults::new(seed));
    let session = client
        .dialer(move |_: &str| ready(dialing.dial()))
        .reconnect(reconnect)
        .on::<Pushed>(in_order(&seen, count, "pushes", |Pushed(n, _)| *n))
        .on::<Shared>(in_order(&seen, count, "group sends", |Shared(n, _)| *n))
        .connect()
        .await
        .unwrap();
    while seen.connected.load(Relaxed) == 0 {
        tokio::time::sleep(ms(1)).await;
    }
    network.set_faults(Faults::new(seed).break_within(within).pieces(400));
    network.cut_all();
    talk(&session, &server, count).await;
    // The last of each may still be on its way.
    let all = async {
        while seen.finished.load(Relaxed) < 2 {
            tokio::time::sleep(ms(10)).await;
        }
    };
    let done = tokio::time::timeout(Duration::from_secs(60), all).await;
    assert_eq!(*seen.wrong.lock().unwrap(), Vec::<String>::new());
    assert!(done.is_ok(), "not everything was heard");
    assert_eq!(seen.commands.load(Relaxed), count);
    assert_eq!(seen.asked.load(Relaxed), count / 10);
    assert_eq!(seen.connected.load(Relaxed), 1, "one session, from the beginning to the end");
    accepting.abort();
    seen.resumed.load(Relaxed)
}

fn in_order<T: 'static>(
    seen: &Arc<Seen>,
    count: u32,
    what: &'static str,
    number: fn(&T) -> u32,
) -> impl FnMut(Arc<T>) + Send + 'static {
    let (seen, mut next) = (Arc::clone(seen), 0);
    move |packet: Arc<T>| {
        seen.check(what, next, number(&packet));
        next += 1;
        if next == count {
            seen.finished.fetch_add(1, Relaxed);
        }
    }
}

async fn talk(session: &Session, server: &ServerHandle, count: u32) {
    let commands = async {
        for n in 0..count {
            session.send(&Command(n, PAD)).await.unwrap();
        }
    };
    let asks = async {
        for n in 0..count / 10 {
            assert_eq!(session.request(Ask(n)).await.unwrap(), n + 1);
        }
    };
    let shared = async {
        let group = server.hub().group("all");
        for n in 0..count {
            // Groups do not wait: whoever is too slow is closed. So this does.
            while server.connections().iter().any(|connection| connection.queued_bytes() > 1_000) {
                tokio::time::sleep(Duration::from_micros(100)).await;
            }
            assert_eq!(group.send(&Shared(n, PAD)).queued, 1);
        }
    };
    let down = async {
        let mut items = session.stream(Down(count)).await.unwrap();
        let mut next = 0;
        while let Some(item) = items.next().await {
            assert_eq!(item.unwrap(), next, "items");
            next += 1;
        }
        assert_eq!(next, count, "items");
    };
    let up = async {
        let mut upload = session.upload(Up).await.unwrap();
        for n in 0..count {
            upload.send(&n).await.unwrap();
        }
        assert_eq!(upload.finish().await.unwrap(), count);
    };
    tokio::join!(commands, asks, shared, down, up);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_lost_or_doubled_over_links_that_break_all_the_time() {
    let mut cuts = 0;
    for seed in 0..20 {
        cuts += run(Run { seed, count: 1_000, within: 4_000, sealed: seed % 2 == 1 }).await;
    }
    println!("{cuts} links were lost");
    assert!(cuts > 300, "{cuts}");
}

#[tokio::test(start_paused = true)]
#[ignore = "takes half a minute; see above"]
async fn a_hundred_thousand_of_each_over_two_thousand_cuts() {
    for (sealed, within) in [(false, 3_500), (true, 2_700)] {
        let cuts = run(Run { seed: 7, count: 100_000, within, sealed }).await;
        println!("{cuts} links were lost");
        assert!(cuts >= 2_000, "{cuts}");
    }
}
