//! Requests that cross the end of their connection: whoever is not answered knows whether it may have run.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use nalix_client::{Client, Session};
use nalix_core::link::faults::{Breaker, Faults, FaultyLink};
use nalix_server::{
    Options, RequestError, Server, ServerHandle,
    link::memory::{self, MemoryLink},
    packet, packet_controller,
};
use support::{soon, within};
use tokio::{sync::Notify, task::JoinSet, time::sleep};

#[packet(opcode = 0x1001, reply = u32)]
struct Quick {
    n: u32,
}

#[derive(Clone, Default)]
struct Lab {
    executed: Arc<AtomicUsize>,
}

#[packet_controller]
impl Lab {
    #[packet]
    fn quick(&self, quick: Quick) -> u32 {
        self.executed.fetch_add(1, Ordering::Relaxed);
        quick.n
    }
}

/// What callers have been told.
#[derive(Debug, Default)]
struct Told {
    answered: usize,
    maybe: usize,
    not_executed: usize,
}

impl Told {
    fn add(&mut self, result: Result<u32, RequestError>) {
        match result {
            Ok(_) => self.answered += 1,
            Err(RequestError::Disconnected { maybe_executed: true, .. }) => self.maybe += 1,
            Err(RequestError::Disconnected { .. } | RequestError::Closed(_)) => self.not_executed += 1,
            Err(RequestError::Status(status)) if status.is_retryable() => self.not_executed += 1,
            Err(other) => panic!("{other:?}"),
        }
    }

    fn check(&self, executed: usize) {
        assert!(self.answered > 0 && self.maybe + self.not_executed > 0, "nothing has crossed: {self:?}");
        let possible = self.answered..=self.answered + self.maybe;
        assert!(possible.contains(&executed), "{executed} executed, {self:?}");
    }
}

/// A client that is one to three milliseconds away in each direction.
async fn distant(server: &ServerHandle, seed: u64, options: Options) -> (Session, Breaker<MemoryLink>) {
    let faults = Faults::new(seed).latency(Duration::from_millis(1)..Duration::from_millis(3));
    let (ours, theirs) = memory::pair(64 * 1024);
    server.serve_link(FaultyLink::new(theirs, faults.clone()));
    let link = FaultyLink::new(ours, faults);
    let breaker = link.breaker();
    let session = Client::builder("").plaintext().options(options).connect_over(link).await.unwrap();
    (session, breaker)
}

/// A request every fifth of a millisecond, for twelve of them.
fn calls(session: &Session) -> JoinSet<Result<u32, RequestError>> {
    let mut calls = JoinSet::new();
    for n in 0..60_u32 {
        let session = session.clone();
        calls.spawn(async move {
            sleep(Duration::from_micros(200) * n).await;
            session.request(Quick { n }).await
        });
    }
    calls
}

#[tokio::test(start_paused = true)]
async fn a_request_that_crosses_a_drain_is_answered_or_said_to_be_lost() {
    let (lab, mut told) = (Lab::default(), Told::default());
    for seed in 0..40 {
        let server =
            Server::builder().plaintext().no_listener().controller(lab.clone()).build().await.unwrap();
        let (handle, stop) = (server.handle(), Arc::new(Notify::new()));
        let signal = Arc::clone(&stop);
        let running = tokio::spawn(async move { server.run_until(signal.notified()).await.unwrap() });
        let (session, _breaker) = distant(&handle, seed, Options::default()).await;
        let mut calls = calls(&session);
        sleep(Duration::from_micros(5_000 + seed * 50)).await;
        stop.notify_one();
        while let Some(result) = soon(calls.join_next()).await {
            told.add(result.unwrap());
        }
        within("the drain", running).await.unwrap();
    }
    told.check(lab.executed.load(Ordering::Relaxed));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_crosses_the_loss_of_its_peer_is_answered_or_said_to_be_lost() {
    let (lab, mut told) = (Lab::default(), Told::default());
    let options = Options::default().keep_alive(Some(Duration::from_millis(100)));
    for seed in 0..40 {
        let server = support::server(lab.clone(), options.clone()).await;
        let (session, breaker) = distant(&server, seed, options.clone()).await;
        let mut calls = calls(&session);
        sleep(Duration::from_micros(5_000 + seed * 50)).await;
        breaker.go_silent();
        while let Some(result) =
            within("all are told long before their calls time out", calls.join_next()).await
        {
            told.add(result.unwrap());
        }
        within("the server notices, too", async {
            while server.connection_count() > 0 {
                sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
    }
    told.check(lab.executed.load(Ordering::Relaxed));
}
