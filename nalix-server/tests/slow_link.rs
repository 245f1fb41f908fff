//! Large messages over a link of a megabit per second: neither pings nor small calls wait for their end.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::time::Duration;

use bytes::Bytes;
use nalix_client::{Client, Session};
use nalix_core::link::faults::{Faults, FaultyLink};
use nalix_server::{Options, link::memory, packet, packet_controller};
use support::soon;
use tokio::time::{Instant, timeout};

#[packet(opcode = 0x1001, reply = u32)]
struct Quick {
    n: u32,
}

#[packet(opcode = 0x1002, reply = Bytes)]
struct Give(u32);

#[packet(opcode = 0x1003, reply = u64)]
struct Take(Bytes);

struct Store;

#[packet_controller]
impl Store {
    #[packet(concurrent)]
    fn quick(&self, quick: Quick) -> u32 {
        quick.n
    }

    #[packet(concurrent)]
    fn give(&self, Give(len): Give) -> Bytes {
        vec![7; len as usize].into()
    }

    #[packet(concurrent)]
    fn take(&self, Take(bytes): Take) -> u64 {
        bytes.len() as u64
    }
}

const LARGE: u32 = 8 << 20;
/// A megabit per second, and a buffer that takes an eighth of a second of it.
const BYTES_PER_SECOND: u64 = 125_000;
const BUFFER: usize = 16 * 1024;

/// Both ends take each other for dead after some seconds without an answer.
async fn narrow() -> Session {
    let options = Options::default().keep_alive(Some(Duration::from_secs(5)));
    let server = support::server(Store, options.clone()).await;
    let faults = Faults::new(1).bandwidth(BYTES_PER_SECOND).capacity(BUFFER);
    let (ours, theirs) = memory::pair(BUFFER);
    server.serve_link(FaultyLink::new(theirs, faults.clone()));
    let builder = Client::builder("").plaintext().options(options);
    builder.connect_over(FaultyLink::new(ours, faults)).await.unwrap()
}

/// Calls twice a second until `large` is done, and returns how many there were and the longest.
async fn small_calls_beside<T>(session: &Session, large: impl Future<Output = T>) -> (T, u32, Duration) {
    let mut large = std::pin::pin!(large);
    let (mut calls, mut longest) = (0, Duration::ZERO);
    loop {
        if let Ok(done) = timeout(Duration::from_millis(500), &mut large).await {
            return (done, calls, longest);
        }
        let begun = Instant::now();
        // The large one goes on meanwhile: its driver is a task of its own.
        assert_eq!(soon(session.request(Quick { n: calls }).into_future()).await, Ok(calls));
        longest = longest.max(begun.elapsed());
        calls += 1;
    }
}

#[tokio::test(start_paused = true)]
async fn a_large_answer_over_a_slow_link_neither_looks_like_a_dead_peer_nor_holds_up_small_calls() {
    let session = narrow().await;
    let begun = Instant::now();
    let large = session.request(Give(LARGE)).no_timeout().into_future();
    let (answer, calls, longest) = small_calls_beside(&session, large).await;
    assert_eq!(answer.unwrap().len(), LARGE as usize);
    check(begun.elapsed(), calls, longest);
}

#[tokio::test(start_paused = true)]
async fn a_large_request_over_a_slow_link_neither_looks_like_a_dead_peer_nor_holds_up_small_calls() {
    let session = narrow().await;
    let begun = Instant::now();
    let large = session.request(Take(vec![7; LARGE as usize].into())).no_timeout().into_future();
    let (answer, calls, longest) = small_calls_beside(&session, large).await;
    assert_eq!(answer.unwrap(), u64::from(LARGE));
    check(begun.elapsed(), calls, longest);
}

fn check(took: Duration, calls: u32, longest: Duration) {
    assert!(took > Duration::from_secs(60), "the link was not slow: {took:?}");
    assert!(calls > 40, "{calls} calls in {took:?}");
    assert!(longest < Duration::from_secs(2), "a small call took {longest:?}");
}
