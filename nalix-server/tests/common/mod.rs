//! What the tests of servers share.

#![allow(dead_code, reason = "no test uses everything")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

pub(crate) mod raw;
pub(crate) mod record;

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use nalix_client::{Client, Session};
use nalix_server::{ServerHandle, link::memory};

/// A session over an in-memory link.
pub(crate) async fn session(server: &ServerHandle) -> Session {
    let (ours, theirs) = memory::pair(64 * 1024);
    server.serve_link(theirs);
    Client::builder("memory").plaintext().connect_over(ours).await.unwrap()
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
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

/// Fails the test rather than let it hang.
pub(crate) async fn within<T>(what: &str, work: impl Future<Output = T>) -> T {
    match tokio::time::timeout(Duration::from_secs(20), work).await {
        Ok(done) => done,
        Err(_) => panic!("never done: {what}"),
    }
}

/// Counts what is going on, also when it is dropped half-way.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gauge {
    now: Arc<AtomicUsize>,
    peak: Arc<AtomicUsize>,
    total: Arc<AtomicUsize>,
}

impl Gauge {
    pub(crate) fn enter(&self) -> Inside {
        let now = self.now.fetch_add(1, SeqCst) + 1;
        self.peak.fetch_max(now, SeqCst);
        self.total.fetch_add(1, SeqCst);
        Inside(Arc::clone(&self.now))
    }

    pub(crate) fn now(&self) -> usize {
        self.now.load(SeqCst)
    }

    pub(crate) fn peak(&self) -> usize {
        self.peak.load(SeqCst)
    }

    pub(crate) fn total(&self) -> usize {
        self.total.load(SeqCst)
    }
}

pub(crate) struct Inside(Arc<AtomicUsize>);

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}
