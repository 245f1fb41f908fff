//! What streams cost: what is on its way, however much there is to come, and nothing when they are over.
//!
//! One test in a program of its own, since the allocator counts for all threads.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use futures_core::Stream;
use nalix_core::{
    Connection, Incoming,
    connection::{Driver, Options, Serving, accept, connect},
    controller::Router,
    handshake::{ClientSecurity, Contracts, ServerSecurity},
    link::memory,
    packet, packet_controller,
    registry::Registry,
};
use peak_alloc::PeakAlloc;
use tokio::time::{sleep, timeout};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

#[packet(opcode = 0x4001, stream = u64)]
struct Numbers;

#[packet(opcode = 0x4002, upload = u64, reply = u64)]
struct Add;

#[packet(opcode = 0x4003, stream = Vec<u8>)]
struct Blobs;

#[packet(opcode = 0x1001, reply = u64)]
struct Ask(u64);

/// Up to a million, and how many have been made.
struct Million(Arc<AtomicU64>);

impl Stream for Million {
    type Item = u64;

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<u64>> {
        let n = self.0.fetch_add(1, Ordering::Relaxed);
        Poll::Ready((n < MILLION).then_some(n))
    }
}

/// Blobs of a megabyte.
struct Large(u32);

impl Stream for Large {
    type Item = Vec<u8>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Vec<u8>>> {
        self.0 += 1;
        Poll::Ready((self.0 <= 8).then(|| vec![7; MEGABYTE]))
    }
}

struct Source(Arc<AtomicU64>, Arc<tokio::sync::Notify>);

#[packet_controller]
impl Source {
    #[packet]
    fn numbers(&self, _: Numbers) -> Million {
        Million(Arc::clone(&self.0))
    }

    #[packet(concurrent)]
    async fn add(&self, _: Add, mut chunks: Incoming<u64>) -> u64 {
        let mut n = 0;
        while let Some(Ok(chunk)) = chunks.next().await {
            assert_eq!(chunk, n);
            n += 1;
            if n == MILLION / 2 {
                self.1.notified().await;
            }
        }
        n
    }

    #[packet]
    fn blobs(&self, _: Blobs) -> Large {
        Large(0)
    }

    #[packet]
    fn ask(&self, ask: Ask) -> u64 {
        ask.0
    }
}

const MILLION: u64 = 1_000_000;
const MEGABYTE: usize = 1 << 20;

#[tokio::test(start_paused = true)]
async fn a_million_items_cost_what_is_on_its_way() {
    let (made, go) = (Arc::new(AtomicU64::new(0)), Arc::default());
    let client = connected(Source(Arc::clone(&made), Arc::clone(&go))).await;
    // What the first use of everything leaves behind is no leak.
    round(&client, &made, &go).await;
    let before = MEMORY.current_usage();
    round(&client, &made, &go).await;
    let left = MEMORY.current_usage().saturating_sub(before);
    assert!(left < 64 << 10, "{left} bytes are left");
}

async fn round(client: &Connection, made: &AtomicU64, go: &tokio::sync::Notify) {
    made.store(0, Ordering::Relaxed);
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    let mut items = client.stream(Numbers).await.unwrap();
    for n in 0..MILLION / 2 {
        assert_eq!(items.next().await, Some(Ok(n)));
    }
    sleep(Duration::from_secs(10)).await;
    let stopped = made.load(Ordering::Relaxed);
    // 64 KiB hold 7,281 items of 9 bytes and a part of one; another may have been found not to fit.
    assert!(stopped - MILLION / 2 <= 7_281 + 2, "{stopped} items are made");
    assert_eq!(client.request(Ask(7)).await, Ok(7));
    sleep(Duration::from_secs(1_000)).await;
    assert_eq!(made.load(Ordering::Relaxed), stopped, "nobody takes them, so none are made");
    for n in MILLION / 2..MILLION {
        assert_eq!(items.next().await, Some(Ok(n)));
    }
    assert_eq!(items.next().await, None);
    let most = MEMORY.peak_usage() - before;
    assert!(most < 1 << 20, "{most} bytes for a stream of 9,000,000");

    // The same the other way round: the handler stops half-way.
    let mut upload = client.upload(Add).await.unwrap();
    let mut sent = 0;
    loop {
        match timeout(Duration::from_secs(10), upload.send(&sent)).await {
            Ok(result) => result.unwrap(),
            Err(_) => break,
        }
        sent += 1;
    }
    assert!((MILLION / 2..MILLION / 2 + 7_281 + 2).contains(&sent), "{sent} items are taken");
    go.notify_one();
    for n in sent..MILLION {
        upload.send(&n).await.unwrap();
    }
    assert_eq!(upload.finish().await, Ok(MILLION));
    let most = MEMORY.peak_usage() - before;
    assert!(most < 1 << 20, "{most} bytes for an upload of 9,000,000");

    // Large ones: each is encoded once and put together once.
    MEMORY.reset_peak_usage();
    let mut blobs = client.stream(Blobs).await.unwrap();
    for _ in 0..8 {
        assert!(blobs.next().await.unwrap().unwrap().len() == MEGABYTE);
    }
    assert_eq!(blobs.next().await, None);
    let most = MEMORY.peak_usage() - before;
    assert!(most < 6 * MEGABYTE, "{most} bytes for items of a megabyte");

    // Nobody waits for the rest of it.
    let mut dropped = client.stream(Blobs).await.unwrap();
    assert!(dropped.next().await.is_some());
    drop(dropped);
    while client.calls_in_flight() > 0 {
        sleep(Duration::from_millis(1)).await;
    }
}

async fn connected(source: Source) -> Connection {
    let mut router = Router::builder();
    router.add(source);
    let serving = Serving::from(router.build().unwrap());
    let options = Options::default();
    let contracts = || Contracts::of(Registry::global().unwrap());
    let (near, far) = memory::pair(64 << 10);
    let (near, far) = tokio::join!(
        connect(near, contracts(), &ClientSecurity::Plaintext, &options),
        accept(far, contracts(), &ServerSecurity::Plaintext, &options)
    );
    let (connection, client) = Driver::new(near.unwrap(), Serving::from(Router::empty()), &options);
    let (server_side, server) = Driver::new(far.unwrap(), serving, &options);
    tokio::spawn(client);
    tokio::spawn(async move {
        server.await;
        drop(server_side);
    });
    connection
}
