//! Five hundred clients whose server is killed and started again.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

use nalix_client::{Context, ReconnectOptions, packet, packet_controller};
use nalix_server::{HubExt, Join};
use support::{Site, soon, until};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

#[packet(opcode = 0x3001)]
struct Tick {
    n: u32,
}

#[packet(opcode = 0x1001, reply = u32)]
struct Count;

/// Takes everybody into one group, and counts how often it has.
#[derive(Clone, Default)]
struct World {
    joined: Arc<AtomicU32>,
}

#[packet_controller]
impl World {
    #[connected]
    fn hello(&self, ctx: &Context) {
        assert_eq!(ctx.group("world").join(ctx), Join::Joined);
        self.joined.fetch_add(1, SeqCst);
    }

    #[packet]
    fn count(&self, _: Count) -> u32 {
        self.joined.load(SeqCst)
    }
}

const CLIENTS: usize = 500;
const MAX_DELAY: Duration = Duration::from_secs(5);

#[tokio::test(start_paused = true)]
async fn five_hundred_clients_come_back_spread_out_and_nobody_is_there_twice() {
    let site = Site::with(World::default()).await;
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        let session = site.connect_with(ReconnectOptions::default().max_delay(MAX_DELAY)).await;
        let ticks = session.subscribe::<Tick>();
        clients.push((session, ticks));
    }
    until("all are in the group", || site.server().hub().group("world").count() == CLIENTS).await;
    // Long enough for their connections to count as stable.
    sleep(Duration::from_secs(60)).await;

    for round in 0..3 {
        let before = site.dialed().len();
        let killed = Instant::now();
        site.kill();
        sleep(Duration::from_secs(10)).await;
        let world = World::default();
        site.start(world.clone()).await;
        let started = Instant::now();

        let mut back = JoinSet::new();
        for (session, _) in &clients {
            let session = session.clone();
            back.spawn(async move {
                session.connected().await.unwrap();
                // That it is there means that calls go through.
                session.request(Count).await.unwrap();
                Instant::now()
            });
        }
        let mut returns = Vec::new();
        while let Some(at) = soon(back.join_next()).await {
            returns.push(at.unwrap() - started);
        }
        returns.sort_unstable();
        let attempts: Vec<_> = site.dialed()[before..].iter().map(|at| *at - killed).collect();
        let histogram = per_100_ms(&attempts);
        println!("round {round}: {} attempts, by 100 ms since the server was killed:", attempts.len());
        print(&histogram);
        println!(
            "all are back after {:?}, half of them after {:?}",
            returns[CLIENTS - 1],
            returns[CLIENTS / 2]
        );

        // Nobody waits for longer than a delay may be.
        assert!(returns[CLIENTS - 1] <= MAX_DELAY + Duration::from_millis(50), "{returns:?}");
        // The first attempts spread over 100 ms and the second over 200 more, so the first tenth of a second has the most;
        // later ones spread over seconds.
        let later = histogram[20..].iter().copied().max().unwrap();
        assert!(histogram[0] <= CLIENTS + CLIENTS / 2, "{histogram:?}");
        assert!(later <= CLIENTS / 8, "no more than an eighth in a tenth of a second: {histogram:?}");
        assert!(attempts.len() <= CLIENTS * 15, "{}", attempts.len());

        // Each is there once: in the group, in the hub, and with its subscription.
        until("the server has each once", || site.server().connection_count() == CLIENTS).await;
        assert_eq!(world.joined.load(SeqCst), CLIENTS as u32);
        let group = site.server().hub().group("world");
        assert_eq!(group.count(), CLIENTS);
        let sent = group.send(&Tick { n: round });
        assert_eq!(sent.queued, CLIENTS);
        for (_, ticks) in &mut clients {
            assert_eq!(soon(ticks.next()).await.unwrap().unwrap().n, round);
            assert!(timeout(Duration::from_millis(1), ticks.next()).await.is_err(), "it comes once");
        }
        sleep(Duration::from_secs(60)).await;
        assert_eq!(site.dialed().len(), before + attempts.len(), "nobody goes on dialing");
    }
}

fn per_100_ms(attempts: &[Duration]) -> Vec<usize> {
    let mut histogram = vec![0; 160];
    for at in attempts {
        histogram[(at.as_millis() / 100) as usize] += 1;
    }
    histogram
}

fn print(histogram: &[usize]) {
    let last = histogram.iter().rposition(|&n| n > 0).unwrap_or(0);
    for (at, n) in histogram[..=last].iter().enumerate() {
        println!("{:>6} ms {n:>4} {}", at * 100, "#".repeat(n.div_ceil(10)));
    }
}
