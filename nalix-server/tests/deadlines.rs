//! Calls that take too long, seen from both sides. Time is paused: nothing here waits in earnest.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::time::Duration;

use nalix_core::{Code, RequestError, frame::Metadata};
use nalix_server::{Context, Options, Status, packet, packet_controller};
use tokio::time::Instant;

use support::{Both, Live, RawPeer, packet_with, soon};

/// Answered never; whoever asks must give up, or be stopped.
#[packet(opcode = 0x1001, reply = ())]
struct Never;

#[packet(opcode = 0x1002, reply = u32)]
struct Double(u32);

/// How many milliseconds the handler is given.
#[packet(opcode = 0x1003, reply = Option<u64>)]
struct Allowed;

/// Answered never either, and does not wait for others.
#[packet(opcode = 0x1004, reply = ())]
struct NeverAside;

#[derive(Default, Clone)]
struct Slow {
    live: Live,
}

#[packet_controller]
impl Slow {
    #[packet]
    async fn never(&self, _: Never) {
        let _guard = self.live.enter();
        std::future::pending::<()>().await;
    }

    #[packet(concurrent)]
    async fn never_aside(&self, _: NeverAside) {
        let _guard = self.live.enter();
        std::future::pending::<()>().await;
    }

    #[packet]
    fn double(&self, Double(n): Double) -> u32 {
        n * 2
    }

    #[packet(concurrent)]
    fn allowed(&self, ctx: &Context, _: Allowed) -> Result<Option<u64>, Status> {
        let now = Instant::now().into_std();
        Ok(ctx.deadline().map(|deadline| deadline.saturating_duration_since(now).as_millis() as u64))
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_caller_gives_up_in_time_and_the_handler_is_stopped() {
    let slow = Slow::default();
    let session = Both::new(slow.clone()).await.client().await;
    let start = Instant::now();
    let result = session.request(Never).timeout(5 * SECOND).await;
    assert!(matches!(result, Err(RequestError::Timeout)), "{result:?}");
    assert_eq!(start.elapsed().as_secs(), 5);
    slow.live.is(0).await;
    assert_eq!(session.request(Double(4)).await.unwrap(), 8, "the lane goes on");
    assert_eq!(session.connection().calls_in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_default_timeout_applies_and_can_be_lifted() {
    let slow = Slow::default();
    let mut both = Both::new(slow.clone()).await;
    both.client_options.request_timeout = Some(7 * SECOND);
    let session = both.client().await;
    let start = Instant::now();
    assert!(matches!(session.request(Never).await, Err(RequestError::Timeout)));
    assert_eq!(start.elapsed().as_secs(), 7);
    let waited =
        tokio::time::timeout(Duration::from_secs(1_000_000), session.request(Never).no_timeout()).await;
    assert!(waited.is_err(), "still waiting: {waited:?}");
}

/// The peer does not watch its own clock: only the time that travels with the request stops the handler.
#[tokio::test(start_paused = true)]
async fn the_remaining_time_on_the_wire_stops_the_handler_whatever_the_caller_does() {
    let slow = Slow::default();
    let both = Both::new(slow.clone()).await;
    let mut peer = RawPeer::connect(&both.server).await;
    let start = Instant::now();
    peer.send(&[packet_with(3, &Never, Metadata::remaining(2 * SECOND))]).await;
    assert_eq!(peer.status(3).await.code, Code::DeadlineExceeded);
    assert_eq!(start.elapsed().as_secs(), 2);
    slow.live.is(0).await;
    peer.ping().await;
}

#[tokio::test(start_paused = true)]
async fn the_server_clamps_what_callers_allow() {
    let slow = Slow::default();
    let mut options = Options::default();
    options.max_deadline = Some(3 * SECOND);
    let both = Both::with(slow.clone(), options).await;
    let mut peer = RawPeer::connect(&both.server).await;
    for allowed in
        [Metadata::default(), Metadata::remaining(Duration::MAX), Metadata::remaining(100 * SECOND)]
    {
        let start = Instant::now();
        peer.send(&[packet_with(0, &Never, allowed)]).await;
        assert_eq!(peer.status(0).await.code, Code::DeadlineExceeded);
        assert_eq!(start.elapsed().as_secs(), 3, "{allowed:?}");
    }
    // What is shorter stays as it is.
    let start = Instant::now();
    peer.send(&[packet_with(0, &Never, Metadata::remaining(SECOND))]).await;
    assert_eq!(peer.status(0).await.code, Code::DeadlineExceeded);
    assert_eq!(start.elapsed().as_secs(), 1);
}

#[tokio::test(start_paused = true)]
async fn handlers_see_the_time_that_is_left() {
    let session = Both::new(Slow::default()).await.client().await;
    let allowed = session.request(Allowed).timeout(4 * SECOND).await.unwrap();
    assert_eq!(allowed, Some(4_000));
    assert_eq!(session.request(Allowed).no_timeout().await.unwrap(), None);
    assert_eq!(session.request(Allowed).timeout(Duration::MAX).await.unwrap(), None, "as good as for ever");
    let deadline = Instant::now().into_std() + 9 * SECOND;
    assert_eq!(session.request(Allowed).deadline(deadline).await.unwrap(), Some(9_000));
}

/// A call that waits for the one before it runs out of time without having been started.
#[tokio::test(start_paused = true)]
async fn queued_calls_expire_where_they_wait() {
    let slow = Slow::default();
    let both = Both::new(slow.clone()).await;
    let mut peer = RawPeer::connect(&both.server).await;
    peer.send(&[
        packet_with(0, &Never, Metadata::default()),
        packet_with(1, &Never, Metadata::remaining(SECOND)),
        packet_with(2, &Double(2), Metadata::remaining(2 * SECOND)),
        packet_with(3, &Double(3), Metadata::remaining(100 * SECOND)),
    ])
    .await;
    assert_eq!(peer.status(1).await.code, Code::DeadlineExceeded);
    assert_eq!(peer.status(2).await.code, Code::DeadlineExceeded);
    assert_eq!(slow.live.entered(), 1, "only the first has run");
    peer.send(&[support::cancel(0)]).await;
    assert_eq!(peer.status(0).await.code, Code::Cancelled);
    assert_eq!(peer.reply(3).await, nalix_core::wire::to_vec(&6u32).unwrap());
}

/// A client whose server takes one call at a time: the second waits on this side, and is never sent.
#[tokio::test(start_paused = true)]
async fn calls_that_wait_for_a_slot_expire_unsent() {
    let slow = Slow::default();
    let mut options = Options::default();
    options.max_calls = 1;
    let session = Both::with(slow.clone(), options).await.client().await;
    let first = tokio::spawn({
        let session = session.clone();
        async move { session.request(Never).timeout(60 * SECOND).await }
    });
    slow.live.is(1).await;
    let start = Instant::now();
    let second = session.request(NeverAside).timeout(2 * SECOND).await;
    assert!(matches!(second, Err(RequestError::Timeout)), "{second:?}");
    assert_eq!(start.elapsed().as_secs(), 2);
    assert_eq!(slow.live.entered(), 1);
    assert!(matches!(first.await.unwrap(), Err(RequestError::Timeout)));
    assert_eq!(session.request(Double(1)).await.unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn no_time_at_all_sends_nothing() {
    let slow = Slow::default();
    let session = Both::new(slow.clone()).await.client().await;
    for _ in 0..10 {
        let result = session.request(Never).timeout(Duration::ZERO).await;
        assert!(matches!(result, Err(RequestError::Timeout)), "{result:?}");
        let past = Instant::now().into_std();
        let result = session.request(Never).deadline(past).await;
        assert!(matches!(result, Err(RequestError::Timeout)), "{result:?}");
    }
    assert_eq!(session.request(Double(5)).await.unwrap(), 10);
    assert_eq!(slow.live.entered(), 0);
}

/// A request whose time is over when it arrives is not run.
#[tokio::test(start_paused = true)]
async fn a_request_that_arrives_too_late_is_not_run() {
    let slow = Slow::default();
    let both = Both::new(slow.clone()).await;
    let mut peer = RawPeer::connect(&both.server).await;
    peer.send(&[
        packet_with(0, &Double(1), Metadata::remaining(Duration::ZERO)),
        packet_with(1, &NeverAside, Metadata::remaining(Duration::ZERO)),
    ])
    .await;
    assert_eq!(peer.status(0).await.code, Code::DeadlineExceeded);
    assert_eq!(peer.status(1).await.code, Code::DeadlineExceeded);
    assert_eq!(slow.live.entered(), 0);
}

/// Deadlines of many calls at once, in no order.
#[tokio::test(start_paused = true)]
async fn a_thousand_deadlines_pass_each_in_its_own_time() {
    let slow = Slow::default();
    let session = Both::new(slow.clone()).await.client().await;
    let start = Instant::now();
    let calls = (0..1_000u64).map(|i| {
        let timeout = Duration::from_millis(10 + (i * 7_919) % 1_000);
        let request = session.request(NeverAside).timeout(timeout);
        tokio::spawn(async move {
            assert!(matches!(request.await, Err(RequestError::Timeout)));
            // Timers are true to a millisecond, and a call's clock starts at its first poll.
            let late = start.elapsed().saturating_sub(timeout);
            assert!(late <= Duration::from_millis(2), "late by {late:?}");
        })
    });
    for call in calls.collect::<Vec<_>>() {
        soon(call).await.unwrap();
    }
    slow.live.is(0).await;
    assert_eq!(session.connection().calls_in_flight(), 0);
    assert_eq!(session.connection().close_reason(), None);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_does_not_move_while_its_request_waits_to_be_polled() {
    let session = Both::new(Slow::default()).await.client().await;
    let request = session.request(Double(1)).deadline((Instant::now() + SECOND).into_std());
    tokio::time::sleep(2 * SECOND).await;
    assert_eq!(request.await, Err(RequestError::Timeout));
    // It takes the place of the default timeout, and the earlier of two that are set counts.
    let start = Instant::now();
    let far = (start + 100 * SECOND).into_std();
    assert_eq!(session.request(Never).deadline(far).await, Err(RequestError::Timeout));
    assert_eq!(start.elapsed().as_secs(), 100);
    let start = Instant::now();
    let far = (start + 100 * SECOND).into_std();
    assert_eq!(session.request(Never).deadline(far).timeout(SECOND).await, Err(RequestError::Timeout));
    assert_eq!(start.elapsed().as_secs(), 1);
}
