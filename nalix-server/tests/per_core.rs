//! A server with a runtime for each core.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{
    collections::HashSet,
    net::SocketAddr,
    num::NonZeroUsize,
    sync::{Arc, Mutex, mpsc},
    time::{Duration, Instant},
};

use nalix_client::{Client, Session};
use nalix_server::{
    BuildError, CloseCode, CloseReason, Code, Context, Cores, DrainReport, Server, ServerBuilder,
    ServerHandle, packet, packet_controller,
};
use support::{Live, eventually, within};
use tokio::task::JoinHandle;

#[packet(opcode = 0x1001, reply = String)]
struct Thread;

#[packet(opcode = 0x1002, reply = ())]
struct Panic;

#[packet(opcode = 0x1003, reply = ())]
struct Endless;

#[packet(opcode = 0x1004, reply = ())]
struct Block;

struct Lab {
    running: Live,
    gone: Live,
    block: Mutex<Option<mpsc::Receiver<()>>>,
}

#[packet_controller]
impl Lab {
    #[packet]
    async fn thread(&self, _: Thread) -> String {
        tokio::task::yield_now().await;
        std::thread::current().name().unwrap_or_default().to_owned()
    }

    #[packet]
    fn panic(&self, _: Panic) {
        panic!("on purpose");
    }

    #[packet]
    async fn endless(&self, _: Endless) {
        let _inside = self.running.enter();
        std::future::pending::<()>().await;
    }

    #[packet(blocking)]
    fn block(&self, _: Block) {
        let _inside = self.running.enter();
        let block: Option<mpsc::Receiver<()>> = self.block.lock().unwrap().take();
        // Until the test ends.
        if let Some(block) = block {
            block.recv().unwrap_or_default();
        }
    }

    #[disconnected]
    async fn bye(&self, _: &Context, _: &CloseReason) {
        tokio::task::yield_now().await;
        drop(self.gone.enter());
    }
}

struct Bench {
    address: SocketAddr,
    handle: ServerHandle,
    report: JoinHandle<Result<DrainReport, BuildError>>,
    running: Live,
    gone: Live,
    release: mpsc::Sender<()>,
}

fn builder(lab: Lab) -> ServerBuilder {
    Server::builder().plaintext().tcp("127.0.0.1:0").controller(lab).drain_timeout(Duration::from_millis(300))
}

impl Bench {
    async fn new(cores: Cores) -> Self {
        let (running, gone) = (Live::default(), Live::default());
        let (release, block) = mpsc::channel();
        let lab = Lab { running: running.clone(), gone: gone.clone(), block: Mutex::new(Some(block)) };
        let server = builder(lab).cores(cores).build().await.unwrap();
        let address = server.local_addr();
        let (handle, report) = server.spawn();
        Self { address, handle, report, running, gone, release }
    }

    async fn session(&self) -> Session {
        let client = Client::builder(format!("tcp://{}", self.address)).no_reconnect().plaintext();
        within("the connection", client.connect()).await.unwrap()
    }

    async fn stop(self) -> (usize, usize) {
        self.handle.shutdown();
        let report = within("the drain", self.report).await.unwrap().unwrap();
        assert_eq!(self.handle.connection_count(), 0);
        let again = std::net::TcpListener::bind(self.address);
        assert!(again.is_ok(), "the port is free: {again:?}");
        (report.drained, report.forced)
    }
}

fn each(n: usize) -> Cores {
    Cores::Each(NonZeroUsize::new(n).unwrap())
}

#[tokio::test]
async fn connections_are_spread_over_the_threads_and_stay_where_they_are() {
    let bench = Bench::new(each(3)).await;
    let mut sessions = Vec::new();
    let mut threads = HashSet::new();
    for _ in 0..60 {
        let session = bench.session().await;
        let thread = session.request(Thread).await.unwrap();
        assert_eq!(session.request(Thread).await.unwrap(), thread);
        threads.insert(thread);
        sessions.push(session);
    }
    assert!(threads.len() >= 2 && threads.iter().all(|name| name.starts_with("nalix-")), "{threads:?}");
    assert_eq!(bench.handle.connection_count(), 60);
    let gone = bench.gone.clone();
    assert_eq!(bench.stop().await, (60, 0));
    assert_eq!(gone.entered(), 60);
    for session in sessions {
        assert_eq!(session.closed().await.code, CloseCode::GoingAway);
    }
}

#[tokio::test]
async fn a_handler_that_panics_does_not_take_its_thread_along() {
    let bench = Bench::new(each(1)).await;
    let (session, neighbour) = (bench.session().await, bench.session().await);
    for _ in 0..3 {
        assert_eq!(session.request(Panic).await.unwrap_err().code(), Some(Code::Internal));
        assert_eq!(session.request(Thread).await.unwrap(), "nalix-0");
        assert_eq!(neighbour.request(Thread).await.unwrap(), "nalix-0");
    }
    assert_eq!(bench.stop().await, (2, 0));
}

#[tokio::test]
async fn endless_handlers_are_cut_off_and_their_hooks_run() {
    let bench = Bench::new(each(2)).await;
    let mut calls = Vec::new();
    for _ in 0..10 {
        let session = bench.session().await;
        calls.push(tokio::spawn(async move { (session.request(Endless).no_timeout().await, session) }));
    }
    let (running, gone) = (bench.running.clone(), bench.gone.clone());
    eventually("all run", || running.count() == 10).await;
    let begun = Instant::now();
    assert_eq!(bench.stop().await, (0, 10));
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    assert_eq!((running.count(), gone.entered()), (0, 10));
    for call in calls {
        let (outcome, session) = call.await.unwrap();
        assert!(outcome.is_err());
        assert_eq!(session.closed().await.code, CloseCode::GoingAway);
    }
}

#[tokio::test]
async fn a_handler_that_blocks_a_thread_of_its_own_does_not_hold_the_server_up() {
    let bench = Bench::new(each(1)).await;
    let session = bench.session().await;
    let call = tokio::spawn(async move { session.request(Block).no_timeout().await });
    let (running, release) = (bench.running.clone(), bench.release.clone());
    eventually("it runs", || running.count() == 1).await;
    assert_eq!(bench.stop().await, (0, 1));
    assert!(call.await.unwrap().is_err());
    drop(release);
}

#[tokio::test]
async fn as_many_threads_as_the_machine_has_cores() {
    let bench = Bench::new(Cores::All).await;
    let session = bench.session().await;
    assert!(session.request(Thread).await.unwrap().starts_with("nalix-"));
    session.close().await;
    let handle = bench.handle.clone();
    eventually("it is gone", || handle.connection_count() == 0).await;
    assert_eq!(bench.stop().await, (0, 0));
}

#[tokio::test]
async fn dropping_the_run_ends_the_threads_once_their_clients_have_left() {
    let lab = Arc::new(Live::default());
    let (release, block) = mpsc::channel();
    let lab = Lab { running: Live::default(), gone: (*lab).clone(), block: Mutex::new(Some(block)) };
    let gone = lab.gone.clone();
    let server = builder(lab).cores(each(2)).build().await.unwrap();
    let (address, handle) = (server.local_addr(), server.handle());
    let run = tokio::spawn(server.run());
    let client = Client::builder(format!("tcp://{address}")).no_reconnect().plaintext();
    let session = within("the connection", client.connect()).await.unwrap();
    eventually("it is open", || handle.connection_count() == 1).await;
    run.abort();
    drop(run.await);
    eventually("the port is free", || std::net::TcpListener::bind(address).is_ok()).await;
    assert!(session.request(Thread).await.unwrap().starts_with("nalix-"));
    session.close().await;
    eventually("it is gone", || gone.entered() == 1 && handle.connection_count() == 0).await;
    drop(release);
}
