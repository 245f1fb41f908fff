//! Those who call, and what they see.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use hdrhistogram::Histogram;
use nalix_client::{Client, Session};
use tokio::task::JoinSet;

use super::{Echo, Outcome};

/// What all callers have seen.
pub(crate) struct Seen {
    times: Mutex<Histogram<u64>>,
    pub(crate) calls: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) stop: AtomicBool,
}

impl Seen {
    pub(crate) fn new() -> Outcome<Arc<Self>> {
        Ok(Arc::new(Self {
            times: Mutex::new(Histogram::new_with_bounds(1, 60_000_000, 3)?),
            calls: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        }))
    }

    pub(crate) fn micros(&self, quantile: f64) -> u64 {
        self.times.lock().expect("whole").value_at_quantile(quantile)
    }
}

pub(crate) async fn join(address: SocketAddr) -> Outcome<Session> {
    Ok(Client::builder(format!("tcp://{address}")).plaintext().no_reconnect().connect().await?)
}

/// Calls, thinks, and calls again. Returns its session, which is open.
pub(crate) async fn caller(session: Session, index: usize, think: Duration, seen: Arc<Seen>) -> Session {
    let data = Bytes::from_static(&[7; 64]);
    // Not all at once.
    tokio::time::sleep(think * (index % 1_000) as u32 / 1_000).await;
    while !seen.stop.load(Relaxed) {
        let began = Instant::now();
        match session.request(Echo { data: data.clone() }).await {
            Ok(_) => {
                let took = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
                seen.times.lock().expect("whole").saturating_record(took);
                seen.calls.fetch_add(1, Relaxed);
            }
            Err(_) => drop(seen.failed.fetch_add(1, Relaxed)),
        }
        tokio::time::sleep(think).await;
    }
    session
}

pub(crate) async fn call(
    sessions: Vec<Session>,
    think: Duration,
    time: Duration,
    seen: &Arc<Seen>,
) -> Outcome<Vec<Session>> {
    seen.stop.store(false, Relaxed);
    let mut tasks = JoinSet::new();
    for (index, session) in sessions.into_iter().enumerate() {
        tasks.spawn(caller(session, index, think, Arc::clone(seen)));
    }
    tokio::time::sleep(time).await;
    seen.stop.store(true, Relaxed);
    Ok(tasks.join_all().await)
}

pub(crate) fn show(when: &str, seen: &Seen, time: Duration) {
    let rate = seen.calls.load(Relaxed) as f64 / time.as_secs_f64();
    println!(
        "{when}: {rate:.0} calls/s, p50 {} us, p99 {} us, p99.9 {} us, {} failed",
        seen.micros(0.5),
        seen.micros(0.99),
        seen.micros(0.999),
        seen.failed.load(Relaxed)
    );
}
