//! Sessions that outlive their links: everything arrives once and in order, wherever a link breaks.

mod world;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use nalix_core::{
    CloseCode, Connection, Context, Incoming, Stream,
    connection::{Options, Why},
    controller::Router,
    handshake::Sealing,
    packet, packet_controller, stream,
};
use world::{Setting, WHOLE, World, world};

#[packet(opcode = 0x1001, reply = u32)]
struct Next(u32);

#[packet(opcode = 0x1002, reply = Vec<u8>)]
struct Large(Vec<u8>);

#[packet(opcode = 0x1003, reply = u32)]
struct Slow(u32);

#[packet(opcode = 0x3001)]
struct Said(u32);

#[packet(opcode = 0x3002)]
struct Heard(u32);

#[packet(opcode = 0x4001, stream = u32)]
struct Count(u32);

#[packet(opcode = 0x4002, upload = u32, reply = u32)]
struct Add;

/// What has happened on the server.
#[derive(Default)]
struct Seen {
    said: Mutex<Vec<u32>>,
    runs: AtomicU32,
}

struct Game(Arc<Seen>);

#[packet_controller]
impl Game {
    #[packet]
    fn next(&self, Next(n): Next) -> u32 {
        self.0.runs.fetch_add(1, Ordering::Relaxed);
        n + 1
    }

    #[packet]
    fn large(&self, Large(bytes): Large) -> Vec<u8> {
        bytes
    }

    #[packet(concurrent)]
    async fn slow(&self, Slow(n): Slow) -> u32 {
        tokio::time::sleep(Duration::from_secs(5)).await;
        self.0.runs.fetch_add(1, Ordering::Relaxed);
        n + 1
    }

    #[packet]
    fn said(&self, ctx: &Context, Said(n): Said) {
        self.0.said.lock().unwrap().push(n);
        ctx.try_send(&Heard(n)).unwrap();
    }

    #[packet]
    fn count(&self, Count(n): Count) -> impl Stream<Item = u32> + use<> {
        stream::iter(0..n)
    }

    #[packet(concurrent)]
    async fn add(&self, _: Add, mut chunks: Incoming<u32>) -> u32 {
        let (mut n, mut sum) = (0, 0);
        while let Some(Ok(chunk)) = chunks.next().await {
            assert_eq!(chunk, n);
            n += 1;
            sum += chunk;
        }
        sum
    }
}

async fn game(setting: Setting, plan: world::Plan) -> (World, Arc<Seen>) {
    let game = Arc::<Seen>::default();
    let mut router = Router::builder();
    router.add(Game(Arc::clone(&game)));
    (world(setting, router.build().unwrap(), plan).await, game)
}

/// A bit of everything, in order.
async fn talk(client: &Connection, game: &Seen, rounds: u32) {
    let mut heard = client.subscribe::<Heard>();
    for round in 0..rounds {
        assert_eq!(client.request(Next(round)).await.unwrap(), round + 1);
        client.send(&Said(round)).await.unwrap();
        let (a, b) = tokio::join!(async { client.request(Next(7)).await.unwrap() }, async {
            let mut items = client.stream(Count(20)).await.unwrap();
            let mut next = 0;
            while let Some(item) = items.next().await {
                assert_eq!(item.unwrap(), next);
                next += 1;
            }
            next
        });
        assert_eq!((a, b), (8, 20));
        let mut upload = client.upload(Add).await.unwrap();
        for n in 0..20 {
            upload.send(&n).await.unwrap();
        }
        assert_eq!(upload.finish().await.unwrap(), 190);
        assert_eq!(heard.next().await.unwrap().unwrap().0, round);
    }
    assert_eq!(*game.said.lock().unwrap(), (0..rounds).collect::<Vec<_>>());
    assert_eq!(game.runs.load(Ordering::Relaxed), 2 * rounds);
}

/// Breaks the `nth` link after so many bytes, and leaves the others whole.
fn cut_first(written: usize, read: usize) -> world::Plan {
    let mut first = true;
    Box::new(move || if std::mem::take(&mut first) { (written, read) } else { (WHOLE, WHOLE) })
}

#[tokio::test(start_paused = true)]
async fn nothing_is_lost_or_doubled_wherever_the_first_link_breaks() {
    let mut cuts = 0;
    for sealing in [Sealing::None, Sealing::Marked, Sealing::All] {
        for (written, read) in (20..900).map(|n| (n, WHOLE)).chain((20..900).map(|n| (WHOLE, n))) {
            let (world, game) = game(Setting::new(sealing), cut_first(written, read)).await;
            talk(&world.client, &game, 2).await;
            cuts += world.shared.attached.load(Ordering::Relaxed);
            assert_eq!(world.shared.fresh.load(Ordering::Relaxed), 0);
        }
    }
    assert!(cuts > 1_800, "{cuts}");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_lost_or_doubled_when_every_link_breaks_soon() {
    for seed in 0..210u64 {
        let mut state = seed;
        let mut random = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize
        };
        let plan = move || {
            let n = 250 + random() % 400;
            if random() % 2 == 0 { (n, WHOLE) } else { (WHOLE, n) }
        };
        let sealing = [Sealing::None, Sealing::Marked, Sealing::All][(seed % 3) as usize];
        let mut setting = Setting::new(sealing);
        setting.capacity = 7;
        let (world, game) = game(setting, Box::new(plan)).await;
        talk(&world.client, &game, 10).await;
        assert!(world.shared.attached.load(Ordering::Relaxed) > 1, "{seed}");
        assert_eq!(world.shared.fresh.load(Ordering::Relaxed), 0, "{seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn large_messages_go_on_where_they_were() {
    let bytes: Vec<u8> = (0..200_000u32).map(|n| (n % 251) as u8).collect();
    for cut in [30_000, 100_000, 199_999, 200_100] {
        for plan in [cut_first(cut, WHOLE), cut_first(WHOLE, cut)] {
            let (world, _game) = game(Setting::new(Sealing::None), plan).await;
            assert!(world.client.request(Large(bytes.clone())).await.unwrap() == bytes);
            assert_eq!(world.shared.attached.load(Ordering::Relaxed), 1, "{cut}");
        }
    }
}

/// Its answer waits for the client.
#[tokio::test(start_paused = true)]
async fn a_handler_runs_on_while_its_client_is_away() {
    let (world, game) = game(Setting::new(Sealing::None), cut_first(WHOLE, WHOLE)).await;
    let call = tokio::spawn({
        let client = world.client.clone();
        async move { client.request(Slow(1)).await }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.client.detach();
    assert_eq!(call.await.unwrap().unwrap(), 2);
    assert_eq!((game.runs.load(Ordering::Relaxed), world.client.links_lost()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_away_for_too_long_is_over_and_its_calls_with_it() {
    let mut setting = Setting::new(Sealing::None);
    setting.server.resume_grace = Duration::from_secs(2);
    // No second link ever carries anything.
    let mut first = true;
    let plan = move || if std::mem::take(&mut first) { (WHOLE, WHOLE) } else { (0, 0) };
    let (mut world, game) = game(setting, Box::new(plan)).await;
    let server = world.server.recv().await.unwrap();
    let call = tokio::spawn({
        let client = world.client.clone();
        async move { client.request(Slow(1)).await }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.client.detach();
    assert!(call.await.unwrap().unwrap_err().to_string().contains("lost"));
    assert_eq!(world.client.closed().await.code, CloseCode::Lost);
    assert_eq!(server.closed().await.code, CloseCode::Lost);
    assert_eq!(game.runs.load(Ordering::Relaxed), 0, "the handler was stopped");
}

#[tokio::test(start_paused = true)]
async fn what_is_not_kept_any_more_makes_a_new_session() {
    let mut setting = Setting::new(Sealing::None);
    setting.server.resume_log = 64;
    setting.half_open = true;
    setting.pause = Duration::from_secs(1);
    let (mut world, _game) = game(setting, cut_first(WHOLE, 400)).await;
    let server = world.server.recv().await.unwrap();
    // Most of it is lost on the way.
    for n in 0..100 {
        server.try_send(&Heard(n)).unwrap();
        if n % 10 == 0 {
            tokio::time::sleep(Duration::from_micros(1)).await;
        }
    }
    world.client.closed().await;
    assert_eq!(world.shared.fresh.load(Ordering::Relaxed), 1);
    assert_eq!(*world.shared.refused.lock().unwrap(), Some(Why::Lost));
}

#[tokio::test(start_paused = true)]
async fn a_session_ends_with_its_link_where_one_side_keeps_nothing() {
    for (client, server) in [(0, 1 << 16), (1 << 16, 0)] {
        let mut setting = Setting::new(Sealing::None);
        setting.client = Options::default().resume_log(client);
        setting.server = Options::default().resume_log(server);
        let (world, _game) = game(setting, cut_first(400, WHOLE)).await;
        for n in 0..100 {
            if world.client.request(Next(n)).await.is_err() {
                break;
            }
        }
        assert_eq!(world.client.closed().await.code, CloseCode::Lost);
        assert_eq!(world.shared.links.load(Ordering::Relaxed), 1);
    }
}
