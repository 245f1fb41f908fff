//! Policies about running handlers: how many at once, for how long, and what becomes of those that fail. Time is paused.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

use nalix_client::Session;
use nalix_core::packet::NoError;
use nalix_server::{
    Code, Context, Options, RequestError, ServerHandle, Status, Stream, packet, packet_controller,
};
use support::{Live, RawPeer, cancel, request, server, session, soon, until};
use tokio::{
    sync::Notify,
    time::{Instant, advance, sleep},
};

/// Runs until the test says so.
#[packet(opcode = 0x1001, reply = ())]
struct Hold;

/// The same, but nobody waits.
#[packet(opcode = 0x1002, reply = ())]
struct Strict;

/// The same, but nobody waits for long.
#[packet(opcode = 0x1003, reply = ())]
struct Patient;

#[packet(opcode = 0x1004, reply = u64)]
struct Slow;

#[packet(opcode = 0x1005)]
struct Sent;

#[packet(opcode = 0x1006, stream = u8)]
struct Ticks;

#[packet(opcode = 0x1007, reply = ())]
struct Shaky(u8);

#[packet(opcode = 0x1008, reply = ())]
struct Stuck(u8);

#[packet(opcode = 0x1009, reply = ())]
struct Blocks;

#[packet(opcode = 0x100a, reply = ())]
struct Spawned;

#[derive(Default, Clone)]
struct Work {
    live: Live,
    go: Arc<Notify>,
    runs: Arc<AtomicU32>,
    /// Lets the thread that blocks end.
    unblock: Arc<AtomicBool>,
}

impl Work {
    async fn hold(&self) {
        let _guard = self.live.enter();
        self.go.notified().await;
    }
}

#[packet_controller]
impl Work {
    #[packet(concurrent, concurrency = 2, queue = 3)]
    async fn hold_(&self, _: Hold) {
        self.hold().await;
    }

    #[packet(concurrent, concurrency = 1, queue = 0)]
    async fn strict(&self, _: Strict) {
        self.hold().await;
    }

    #[packet(concurrent, concurrency = 1, queue = 8, wait = "1s")]
    async fn patient(&self, _: Patient) {
        self.hold().await;
    }

    #[packet(concurrent, timeout = "2s")]
    async fn slow(&self, ctx: &Context, _: Slow) -> u64 {
        let left = ctx.deadline().unwrap().saturating_duration_since(Instant::now().into_std());
        let _guard = self.live.enter();
        sleep(Duration::from_secs(1_000)).await;
        left.as_millis() as u64
    }

    #[packet(timeout = "2s")]
    async fn sent(&self, _: Sent) {
        let _guard = self.live.enter();
        sleep(Duration::from_secs(1_000)).await;
    }

    #[packet(concurrent, timeout = "1s", concurrency = 1, queue = 0)]
    fn ticks(&self, _: Ticks) -> impl Stream<Item = u8> {
        Endless(self.live.enter())
    }

    #[packet(breaker = 3, cool_down = "10s")]
    fn shaky(&self, Shaky(how): Shaky) -> Result<(), Status> {
        self.runs.fetch_add(1, SeqCst);
        match how {
            0 => Ok(()),
            1 => Err(Status::internal("broken")),
            2 => Err(Status::not_found("no fault of ours")),
            _ => panic!("worse"),
        }
    }

    #[packet(concurrent, breaker = 2, cool_down = "10s", timeout = "1s")]
    async fn stuck(&self, Stuck(how): Stuck) {
        self.runs.fetch_add(1, SeqCst);
        if how == 0 {
            sleep(Duration::from_secs(1_000)).await;
        }
    }

    #[packet(concurrent, blocking, concurrency = 1, queue = 0, timeout = "1s")]
    fn blocks(&self, _: Blocks) {
        let _guard = self.live.enter();
        while !self.unblock.load(SeqCst) {
            std::thread::yield_now();
        }
    }

    #[packet(concurrent, spawn, concurrency = 1, queue = 0, timeout = "1s")]
    async fn spawned(&self, _: Spawned) {
        self.hold().await;
    }
}

/// Has one item, and never another.
struct Endless(#[allow(dead_code)] support::Guard);

impl Stream for Endless {
    type Item = u8;

    fn poll_next(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<u8>> {
        std::task::Poll::Pending
    }
}

const SECOND: Duration = Duration::from_secs(1);

async fn work() -> (Work, ServerHandle, Session) {
    let work = Work::default();
    let server = server(work.clone(), Options::default()).await;
    let session = session(&server).await;
    (work, server, session)
}

fn code<T: std::fmt::Debug>(result: Result<T, RequestError<NoError>>) -> Code {
    match result {
        Err(RequestError::Status(status)) => status.code,
        other => panic!("a status was expected: {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn so_many_run_at_once_on_all_connections_and_so_many_wait() {
    let (work, server, one) = work().await;
    let other = session(&server).await;
    let mut calls = tokio::task::JoinSet::new();
    for n in 0..5 {
        let session = if n % 2 == 0 { one.clone() } else { other.clone() };
        calls.spawn(async move { session.request(Hold).await });
    }
    work.live.is(2).await;
    soon(async {
        // The sixth finds no room, once the five are there.
        loop {
            let tried = tokio::time::timeout(SECOND / 10, async { other.request(Hold).await }).await;
            if let Ok(refused) = tried {
                break assert_eq!(code(refused), Code::ResourceExhausted);
            }
        }
    })
    .await;
    for _ in 0..5 {
        work.go.notify_one();
        soon(calls.join_next()).await.unwrap().unwrap().unwrap();
    }
    assert_eq!((work.live.peak(), work.live.entered()), (2, 5));
}

#[tokio::test(start_paused = true)]
async fn without_a_queue_nobody_waits_and_a_place_that_is_free_admits_one() {
    let (work, _server, session) = work().await;
    let running = tokio::spawn({
        let session = session.clone();
        async move { session.request(Strict).await }
    });
    work.live.is(1).await;
    for _ in 0..10 {
        assert_eq!(code(session.request(Strict).await), Code::ResourceExhausted);
    }
    work.go.notify_one();
    soon(running).await.unwrap().unwrap();
    work.go.notify_one();
    soon(async { session.request(Strict).await }).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_as_long_as_it_may() {
    let (work, _server, session) = work().await;
    let _running = tokio::spawn({
        let session = session.clone();
        async move { session.request(Patient).await }
    });
    work.live.is(1).await;
    let start = Instant::now();
    assert_eq!(code(session.request(Patient).await), Code::ResourceExhausted);
    assert_eq!(start.elapsed().as_secs(), 1);
    let impatient = session.request(Patient).timeout(SECOND / 2).await;
    assert!(matches!(impatient, Err(RequestError::Timeout)), "{impatient:?}");
    assert_eq!(start.elapsed().as_millis(), 1_500, "its own deadline comes first");
    assert_eq!(work.live.entered(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_and_is_cancelled_leaves_the_queue() {
    let (work, server, session) = work().await;
    let first = tokio::spawn({
        let session = session.clone();
        async move { session.request(Hold).await }
    });
    work.live.is(1).await;
    let mut peer = RawPeer::connect(&server).await;
    // Again and again, far more than the queue has room for.
    for _ in 0..50 {
        let calls: Vec<_> = (0..4).map(|id| request(id, 0x1001, b"")).collect();
        peer.send(&calls).await;
        let cancels: Vec<_> = (0..4).map(cancel).collect();
        peer.send(&cancels).await;
        for _ in 0..4 {
            assert!(peer.frame().await.is_some());
        }
    }
    work.live.is(1).await;
    assert!(work.live.peak() <= 2);
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let session = session.clone();
        calls.spawn(async move { session.request(Hold).await });
    }
    work.live.is(2).await;
    for _ in 0..5 {
        work.go.notify_one();
        tokio::task::yield_now().await;
    }
    soon(first).await.unwrap().unwrap();
    while let Some(done) = soon(calls.join_next()).await {
        done.unwrap().unwrap();
        work.go.notify_one();
    }
}

#[tokio::test(start_paused = true)]
async fn places_come_back_when_their_connection_is_gone() {
    let (work, server, _) = work().await;
    for _ in 0..20 {
        let mut peer = RawPeer::connect(&server).await;
        let calls: Vec<_> = (0..5).map(|id| request(id, 0x1001, b"")).collect();
        peer.send(&calls).await;
        work.live.is(2).await;
        drop(peer);
        work.live.is(0).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_is_dropped_when_its_time_is_up() {
    let (work, _server, session) = work().await;
    let start = Instant::now();
    let result = session.request(Slow).timeout(100 * SECOND).await;
    assert_eq!(code(result), Code::DeadlineExceeded);
    assert_eq!(start.elapsed().as_secs(), 2);
    assert_eq!((work.live.count(), work.live.entered()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_callers_shorter_deadline_wins() {
    let (work, server, _) = work().await;
    let session = session(&server).await;
    let start = Instant::now();
    let result = session.request(Slow).timeout(SECOND).await;
    assert!(matches!(result, Err(RequestError::Timeout)), "{result:?}");
    work.live.is(0).await;
    assert_eq!(start.elapsed().as_secs(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_one_way_packet_has_a_time_limit_too() {
    let (work, _server, session) = work().await;
    let start = Instant::now();
    session.send(&Sent).await.unwrap();
    work.live.has_entered(1).await;
    work.live.is(0).await;
    assert_eq!(start.elapsed().as_secs(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_stream_counts_as_running_until_its_end_and_ends_in_time() {
    let (work, _server, session) = work().await;
    let mut ticks = session.stream(Ticks).await.unwrap();
    work.live.is(1).await;
    let mut refused = session.stream(Ticks).await.unwrap();
    let Some(Err(error)) = soon(refused.next()).await else { panic!("it must be refused") };
    assert!(error.to_string().contains("ResourceExhausted"), "{error}");
    let Some(Err(error)) = soon(ticks.next()).await else { panic!("it must end") };
    assert!(error.to_string().contains("DeadlineExceeded"), "{error}");
    work.live.is(0).await;
    let _again = session.stream(Ticks).await.unwrap();
    work.live.is(1).await;
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_fails_in_a_row_is_left_alone_for_a_while() {
    let (work, _server, session) = work().await;
    for how in [1, 3, 2, 1, 3] {
        drop(session.request(Shaky(how)).await);
    }
    assert_eq!(code(session.request(Shaky(2)).await), Code::NotFound, "two in a row are not three");
    for how in [1, 3, 1] {
        assert_eq!(code(session.request(Shaky(how)).await), Code::Internal);
    }
    let runs = work.runs.load(SeqCst);
    advance(4 * SECOND).await;
    let Err(RequestError::Status(status)) = session.request(Shaky(0)).await else { panic!("it is open") };
    assert_eq!((status.code, status.retry_after()), (Code::Unavailable, Some(6 * SECOND)));
    assert_eq!(work.runs.load(SeqCst), runs);
    advance(6 * SECOND).await;
    assert_eq!(code(session.request(Shaky(1)).await), Code::Internal, "one tries, and fails");
    assert_eq!(code(session.request(Shaky(0)).await), Code::Unavailable);
    advance(10 * SECOND).await;
    session.request(Shaky(0)).await.unwrap();
    session.request(Shaky(0)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn calls_that_do_not_decode_do_not_open_a_breaker() {
    let (_, server, session) = work().await;
    let mut peer = RawPeer::connect(&server).await;
    for _ in 0..10 {
        peer.send(&[request(0, 0x1007, b"")]).await;
        assert_eq!(peer.status(0).await.code, Code::Malformed);
    }
    session.request(Shaky(0)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn time_that_is_up_is_a_failure_and_a_caller_that_gives_up_is_not() {
    let (work, _server, session) = work().await;
    for _ in 0..5 {
        let result = session.request(Stuck(0)).timeout(SECOND / 2).await;
        assert!(matches!(result, Err(RequestError::Timeout)), "{result:?}");
    }
    session.request(Stuck(1)).await.unwrap();
    for _ in 0..2 {
        assert_eq!(code(session.request(Stuck(0)).await), Code::DeadlineExceeded);
    }
    let runs = work.runs.load(SeqCst);
    assert_eq!(code(session.request(Stuck(1)).await), Code::Unavailable);
    assert_eq!(work.runs.load(SeqCst), runs);
    advance(10 * SECOND).await;
    assert_eq!(code(session.request(Stuck(0)).await), Code::DeadlineExceeded, "one tries, in vain");
    assert_eq!(code(session.request(Stuck(1)).await), Code::Unavailable);
}

#[tokio::test(start_paused = true)]
async fn a_spawned_handler_gives_its_place_back_when_it_is_stopped() {
    let (work, _server, session) = work().await;
    for _ in 0..3 {
        assert_eq!(code(session.request(Spawned).await), Code::DeadlineExceeded);
        work.live.is(0).await;
    }
    assert_eq!(work.live.entered(), 3);
}

#[tokio::test]
async fn a_thread_that_still_blocks_keeps_its_place() {
    let (work, _server, session) = work().await;
    assert_eq!(code(session.request(Blocks).await), Code::DeadlineExceeded);
    assert_eq!(work.live.count(), 1, "nobody can stop it");
    assert_eq!(code(session.request(Blocks).await), Code::ResourceExhausted);
    work.unblock.store(true, SeqCst);
    work.live.is(0).await;
    // The place is given back right behind the guard.
    soon(async { while session.request(Blocks).await.is_err() {} }).await;
}

#[tokio::test(start_paused = true)]
async fn shutdown_does_not_wait_for_those_that_wait() {
    let (work, server, session) = work().await;
    let calls: Vec<_> = (0..5)
        .map(|_| {
            let session = session.clone();
            tokio::spawn(async move { session.request(Hold).await })
        })
        .collect();
    work.live.is(2).await;
    server.shutdown();
    for call in calls {
        assert!(soon(call).await.unwrap().is_err());
    }
    until("nothing runs any more", || work.live.count() == 0).await;
}
