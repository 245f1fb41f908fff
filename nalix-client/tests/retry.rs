//! Calls that are made more than once, and those that must not be.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{
    future::IntoFuture,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

use nalix_client::{
    Advice, Code, ReconnectOptions, RequestError, Retry, SessionEvent, Status, packet, packet_controller,
};
use support::{Site, event, fresh, soon, until};
use tokio::time::{Instant, sleep};

/// Answered by the n-th run and those after it; the runs before do what `how` says.
#[packet(opcode = 0x1001, reply = u32, idempotent)]
struct Get {
    good_from: u32,
    how: How,
}

/// The same, but not idempotent.
#[packet(opcode = 0x1002, reply = u32)]
struct Add {
    good_from: u32,
    how: How,
}

#[derive(Debug, Clone, Copy, PartialEq, nalix_client::Wire)]
enum How {
    /// They take for ever.
    Hang,
    /// They say that they have not run, and nothing else.
    Unavailable,
    /// They ask for so many milliseconds of patience.
    Busy(u32),
    /// They fail.
    Internal,
    /// They say that it is of no use.
    Hopeless,
    /// They fail in a way that may heal, without saying that they have not run.
    Aborted,
}

#[derive(Clone, Default)]
struct Lab {
    runs: Arc<AtomicU32>,
}

impl Lab {
    async fn run(&self, good_from: u32, how: How) -> Result<u32, Status> {
        let run = self.runs.fetch_add(1, SeqCst) + 1;
        if run >= good_from {
            return Ok(run);
        }
        Err(match how {
            How::Hang => std::future::pending().await,
            How::Unavailable => Status::unavailable("not now"),
            How::Busy(ms) => Status::resource_exhausted("busy", Some(Duration::from_millis(ms.into()))),
            How::Internal => Status::internal("broken"),
            How::Hopeless => Status::unavailable("never").with_advice(Advice::GiveUp),
            How::Aborted => Status::aborted("a conflict"),
        })
    }

    fn take(&self) -> u32 {
        self.runs.swap(0, SeqCst)
    }
}

#[packet_controller]
impl Lab {
    #[packet(concurrent)]
    async fn get(&self, get: Get) -> Result<u32, Status> {
        self.run(get.good_from, get.how).await
    }

    #[packet(concurrent)]
    async fn add(&self, add: Add) -> Result<u32, Status> {
        self.run(add.good_from, add.how).await
    }
}

async fn lab() -> (Site, Lab) {
    let lab = Lab::default();
    (Site::with(lab.clone()).await, lab)
}

#[tokio::test(start_paused = true)]
async fn an_idempotent_call_whose_answer_is_lost_is_sent_again_and_another_is_not() {
    let (site, lab) = lab().await;
    let session = site.connect().await;
    let mut events = session.events();
    let how = How::Hang;
    let get = tokio::spawn(session.request(Get { good_from: 3, how }).into_future());
    let add = tokio::spawn(session.request(Add { good_from: 3, how }).into_future());
    until("both run", || lab.runs.load(SeqCst) == 2).await;
    site.cut();
    assert!(matches!(fresh(&mut events).await, SessionEvent::Fresh { lost: 2 }));
    assert_eq!(soon(get).await.unwrap(), Ok(3));
    let lost = soon(add).await.unwrap().unwrap_err();
    assert!(matches!(lost, RequestError::Disconnected { maybe_executed: true, .. }));
    assert!(!lost.is_retryable());
    assert_eq!(lab.take(), 3);
}

/// It may be what brings the server down.
#[tokio::test(start_paused = true)]
async fn a_call_that_is_lost_again_and_again_is_given_up() {
    let (site, lab) = lab().await;
    let session = site.connect().await;
    let get =
        tokio::spawn(session.request(Get { good_from: 100, how: How::Hang }).no_timeout().into_future());
    for n in 1..=4 {
        until("it runs", || lab.runs.load(SeqCst) == n).await;
        site.cut();
        sleep(Duration::from_secs(60)).await;
    }
    let lost = soon(get).await.unwrap().unwrap_err();
    assert!(matches!(lost, RequestError::Disconnected { maybe_executed: true, .. }), "{lost}");
    assert_eq!(lab.take(), 4);
}

/// It has run perhaps, so it must not say that it was not sent.
#[tokio::test(start_paused = true)]
async fn a_call_that_was_lost_and_cannot_be_sent_again_says_that_it_may_have_run() {
    let (site, lab) = lab().await;
    let session = site.connect_with(ReconnectOptions::default().offline_age(Duration::from_secs(5))).await;
    let get = tokio::spawn(session.request(Get { good_from: 2, how: How::Hang }).into_future());
    until("it runs", || lab.runs.load(SeqCst) == 1).await;
    site.kill();
    let lost = soon(get).await.unwrap().unwrap_err();
    assert!(matches!(lost, RequestError::Disconnected { maybe_executed: true, .. }), "{lost}");
}

#[tokio::test(start_paused = true)]
async fn what_is_known_not_to_have_run_is_retried_and_else_only_what_is_idempotent() {
    let (site, lab) = lab().await;
    let session = site.connect_with(ReconnectOptions::default().retry_budget(1_000)).await;
    for (how, add_runs, get_runs) in [
        (How::Unavailable, 4, 4),
        (How::Busy(10), 4, 4),
        (How::Internal, 1, 1),
        (How::Hopeless, 1, 1),
        (How::Aborted, 1, 4),
    ] {
        let add = soon(session.request(Add { good_from: 4, how }).retry(3)).await;
        assert_eq!((add.is_ok(), lab.take()), (add_runs == 4, add_runs), "{how:?}");
        let get = soon(session.request(Get { good_from: 4, how }).retry(3)).await;
        assert_eq!((get.is_ok(), lab.take()), (get_runs == 4, get_runs), "{how:?}");
        // One attempt too few, and the last failure is told.
        let add = soon(session.request(Add { good_from: 5, how }).retry(3)).await;
        assert!(matches!(add, Err(RequestError::Status(_))));
        assert_eq!(lab.take(), add_runs);
        // None without being asked for.
        let get = soon(session.request(Get { good_from: 2, how })).await;
        assert!(matches!(get, Err(RequestError::Status(_))));
        assert_eq!(lab.take(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_takes_too_long_is_made_again_if_it_may_run_twice() {
    let (site, lab) = lab().await;
    let session = site.connect().await;
    let retry = Retry::new(3).per_try(Duration::from_millis(500)).delays(Duration::ZERO, Duration::ZERO);
    let before = Instant::now();
    let get = session.request(Get { good_from: 3, how: How::Hang }).retry(retry);
    assert_eq!(soon(get).await, Ok(3));
    assert_eq!((before.elapsed(), lab.take()), (Duration::from_secs(1), 3));
    let add = session.request(Add { good_from: 3, how: How::Hang }).retry(retry);
    assert_eq!(soon(add).await, Err(RequestError::Timeout));
    assert_eq!((before.elapsed(), lab.take()), (Duration::from_millis(1_500), 1));
    // The timeout of the call counts for all attempts.
    let get = session.request(Get { good_from: 9, how: How::Hang }).retry(retry);
    assert_eq!(soon(get.timeout(Duration::from_millis(1_200))).await, Err(RequestError::Timeout));
    assert_eq!((before.elapsed(), lab.take()), (Duration::from_millis(2_700), 3));
    assert_eq!(session.connection().calls_in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_server_s_patience_is_waited_for_and_not_waited_for_in_vain() {
    let (site, lab) = lab().await;
    let session = site.connect().await;
    let before = Instant::now();
    let get = session.request(Get { good_from: 2, how: How::Busy(5_000) }).retry(1);
    assert_eq!(soon(get).await, Ok(2));
    let took = before.elapsed();
    assert!((Duration::from_secs(5)..Duration::from_millis(5_060)).contains(&took), "{took:?}");
    lab.take();
    // No attempt could be made in time, so the call fails now.
    let before = Instant::now();
    let get = session.request(Get { good_from: 2, how: How::Busy(5_000) }).retry(1);
    let error = soon(get.timeout(Duration::from_secs(4))).await.unwrap_err();
    assert_eq!(error.code(), Some(Code::ResourceExhausted));
    assert_eq!(error.retry_after(), Some(Duration::from_secs(5)));
    assert_eq!((before.elapsed(), lab.take()), (Duration::ZERO, 1));
}

/// A server that always fails is asked once for each call, and a few times more.
#[tokio::test(start_paused = true)]
async fn retries_do_not_multiply_the_load_of_a_server_in_trouble() {
    let (site, lab) = lab().await;
    let session = site.connect().await;
    for _ in 0..1_000 {
        let get = session.request(Get { good_from: u32::MAX, how: How::Unavailable }).retry(10);
        assert!(soon(get).await.is_err());
    }
    assert_eq!(lab.take(), 1_000 + 9);
    // When it is well again, calls that succeed bring retries back.
    for _ in 0..1_000 {
        session.request(Get { good_from: 0, how: How::Unavailable }).retry(10).await.unwrap();
    }
    lab.take();
    assert_eq!(soon(session.request(Get { good_from: 3, how: How::Unavailable }).retry(10)).await, Ok(3));
}

#[tokio::test(start_paused = true)]
async fn a_retry_waits_for_a_connection_if_there_is_none_when_its_time_has_come() {
    let (site, lab) = lab().await;
    let session = site.connect().await;
    let mut events = session.events();
    let add =
        tokio::spawn(session.request(Add { good_from: 2, how: How::Busy(1_000) }).retry(1).into_future());
    until("it has failed", || lab.runs.load(SeqCst) == 1).await;
    site.kill();
    event(&mut events, |event| matches!(event, SessionEvent::Failed { attempt: 6, .. })).await;
    site.start(lab.clone()).await;
    assert_eq!(soon(add).await.unwrap(), Ok(2));
}

/// One future after the other is dropped at each of its stages; what is left works.
#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_between_attempts_leaves_nothing_behind() {
    let (site, lab) = lab().await;
    let session = site.connect_with(ReconnectOptions::default().retry_budget(u32::MAX)).await;
    for ms in 0..200 {
        let get = session.request(Get { good_from: u32::MAX, how: How::Busy(7) }).retry(100);
        drop(tokio::time::timeout(Duration::from_millis(ms), get).await);
        if ms % 50 == 0 {
            site.cut();
        }
    }
    lab.take();
    // One that was dropped may still run.
    assert!(soon(session.request(Get { good_from: 0, how: How::Hang })).await.is_ok());
    until("nothing is left", || session.connection().calls_in_flight() == 0).await;
    assert_eq!(session.waiting(), 0);
}
