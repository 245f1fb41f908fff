//! Waiting for what must happen, so that a test fails rather than hangs.

use std::{future::Future, time::Duration};

use tokio::time::{sleep, timeout};

/// Fails the test if `work` hangs. With paused time the wait takes no time at all.
pub(crate) async fn soon<T>(work: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(100), work).await.expect("this hangs")
}

/// As [`soon`], for less time than a request or a stalled write is given: those must not be what ends the work.
pub(crate) async fn within<T>(what: &str, work: impl Future<Output = T>) -> T {
    match timeout(Duration::from_secs(20), work).await {
        Ok(done) => done,
        Err(_) => panic!("never done: {what}"),
    }
}

/// Lets everything run that can, and checks again, until the condition holds.
pub(crate) async fn until(what: &str, condition: impl Fn() -> bool) {
    for _ in 0..100_000 {
        if condition() {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("never came true: {what}");
}

/// As [`until`], where something happens outside the runtime: real sockets, other threads.
pub(crate) async fn eventually(what: &str, condition: impl Fn() -> bool) {
    within(what, async {
        while !condition() {
            sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}
