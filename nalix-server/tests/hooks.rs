//! `#[connected]` and `#[disconnected]`: once each, in order, whatever happens; and what is kept with a connection.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use nalix_client::{Client, SessionState};
use nalix_server::{
    CloseCode, CloseReason, Code, Context, Options, RequestError, Server, ServerHandle, link::StreamLink,
    link::memory, packet, packet_controller,
};
use support::{session, until, within};
use tokio::{io::AsyncWriteExt, sync::Semaphore};

#[packet(opcode = 0x1001, reply = u32)]
struct Count;

#[packet(opcode = 0x1002, reply = ())]
struct Panic;

#[packet(opcode = 0x2001, reply = u32)]
struct WhoAreYou;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn note(&self, event: impl Into<String>) {
        self.0.lock().unwrap().push(event.into());
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// How often the connection has been counted: kept with it.
struct Counted(u32);

struct First {
    log: Log,
    gate: Arc<Semaphore>,
    panics_at_hello: Arc<AtomicBool>,
    panics_at_bye: Arc<AtomicBool>,
    asks: Arc<AtomicBool>,
}

#[packet_controller]
impl First {
    #[packet]
    fn count(&self, ctx: &Context, _: Count) -> u32 {
        let n = ctx.get::<Counted>().map_or(0, |counted| counted.0) + 1;
        ctx.set(Counted(n));
        self.log.note("count");
        n
    }

    #[packet]
    async fn panic(&self, _: Panic) {
        tokio::task::yield_now().await;
        panic!("on purpose");
    }

    #[connected]
    async fn hello(&self, ctx: &Context) {
        self.log.note("hello 1");
        self.gate.acquire().await.unwrap().forget();
        if self.panics_at_hello.load(SeqCst) {
            panic!("on purpose");
        }
        if self.asks.load(SeqCst) {
            let answer = ctx.request(WhoAreYou).await;
            self.log.note(format!("{answer:?}"));
        }
        ctx.set(Counted(100));
        self.log.note("welcome 1");
    }

    #[disconnected]
    async fn bye(&self, ctx: &Context, why: &CloseReason) {
        let counted = ctx.remove::<Counted>().map(|counted| counted.0);
        self.log.note(format!("bye 1 {} {counted:?}", why.code));
        if self.panics_at_bye.load(SeqCst) {
            panic!("on purpose");
        }
    }
}

struct Second {
    log: Log,
    panics_at_bye: Arc<AtomicBool>,
}

#[packet_controller]
impl Second {
    #[connected]
    fn hello(&self, _: &Context) {
        self.log.note("hello 2");
    }

    #[disconnected]
    fn bye(&self, _: &Context, _: &CloseReason) {
        self.log.note("bye 2");
        if self.panics_at_bye.load(SeqCst) {
            panic!("on purpose");
        }
    }
}

struct Me(u32);

/// Sent by the server as soon as there is a connection.
#[packet(opcode = 0x2002)]
struct Welcome {
    n: u32,
}

struct Greeter;

#[packet_controller]
impl Greeter {
    #[packet]
    fn count(&self, _: Count) -> u32 {
        0
    }

    #[connected]
    fn hello(&self, ctx: &Context) {
        ctx.try_send(&Welcome { n: 7 }).unwrap();
    }
}

struct Guest(Log);

#[packet_controller]
impl Guest {
    #[packet]
    fn welcome(&self, welcome: Welcome) {
        self.0.note(format!("welcome {}", welcome.n));
    }
}

#[packet_controller]
impl Me {
    #[packet]
    fn who(&self, _: WhoAreYou) -> u32 {
        self.0
    }
}

struct Bench {
    server: ServerHandle,
    log: Log,
    gate: Arc<Semaphore>,
    panics_at_hello: Arc<AtomicBool>,
    panics_at_bye: Arc<AtomicBool>,
    asks: Arc<AtomicBool>,
}

impl Bench {
    async fn new() -> Self {
        let log = Log::default();
        let gate = Arc::new(Semaphore::new(1_000));
        let (panics_at_hello, panics_at_bye, asks) = Default::default();
        let first = First {
            log: log.clone(),
            gate: Arc::clone(&gate),
            panics_at_hello: Arc::clone(&panics_at_hello),
            panics_at_bye: Arc::clone(&panics_at_bye),
            asks: Arc::clone(&asks),
        };
        let second = Second { log: log.clone(), panics_at_bye: Arc::clone(&panics_at_bye) };
        let server = Server::builder().plaintext().no_listener().controller(first).controller(second);
        let server = server.build().await.unwrap().spawn().0;
        Self { server, log, gate, panics_at_hello, panics_at_bye, asks }
    }

    /// Connections wait in their first hook from now on.
    fn shut_gate(&self) {
        self.gate.forget_permits(1_000);
    }

    async fn over(&self) {
        let log = &self.log;
        until("all have gone", || {
            let log = log.0.lock().unwrap();
            let begun = log.iter().filter(|event| event.starts_with("hello 1")).count();
            self.server.connection_count() == 0
                && log.iter().filter(|event| event.starts_with("bye 1")).count() >= begun
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn hooks_run_once_in_order_and_the_last_to_come_is_the_first_to_go() {
    let bench = Bench::new().await;
    let session = session(&bench.server).await;
    assert_eq!(session.request(Count).await, Ok(101));
    assert_eq!(session.request(Count).await, Ok(102));
    session.close().await;
    bench.over().await;
    let expected = ["hello 1", "welcome 1", "hello 2", "count", "count", "bye 2", "bye 1 Normal Some(102)"];
    assert_eq!(bench.log.take(), expected);
}

#[tokio::test(start_paused = true)]
async fn the_first_packet_waits_until_the_connection_is_set_up() {
    let bench = Bench::new().await;
    bench.shut_gate();
    let session = session(&bench.server).await;
    let call = tokio::spawn(async move { session.request(Count).await });
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(bench.log.take(), ["hello 1"]);
    bench.gate.add_permits(1);
    assert_eq!(call.await.unwrap(), Ok(101));
}

#[tokio::test(start_paused = true)]
async fn nothing_runs_on_a_connection_whose_set_up_has_panicked() {
    let bench = Bench::new().await;
    let neighbour = session(&bench.server).await;
    assert_eq!(neighbour.request(Count).await, Ok(101));
    bench.log.take();
    bench.shut_gate();
    bench.panics_at_hello.store(true, SeqCst);
    let session = session(&bench.server).await;
    let call = tokio::spawn({
        let session = session.clone();
        async move { session.request(Count).await }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    bench.gate.add_permits(1);
    assert!(matches!(call.await.unwrap(), Err(RequestError::Disconnected { .. })));
    assert_eq!(session.closed().await.code, CloseCode::Internal);
    until("it is gone", || bench.server.connection_count() == 1).await;
    assert_eq!(bench.log.take(), ["hello 1", "bye 2", "bye 1 Internal None"], "no handler has run");
    assert_eq!(neighbour.request(Count).await, Ok(102));
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_one_goodbye_does_not_keep_the_others_from_running() {
    let bench = Bench::new().await;
    bench.panics_at_bye.store(true, SeqCst);
    let session = session(&bench.server).await;
    session.request(Count).await.unwrap();
    drop(session);
    bench.over().await;
    let expected = ["hello 1", "welcome 1", "hello 2", "count", "bye 2", "bye 1 Normal Some(101)"];
    assert_eq!(bench.log.take(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_handler_ends_its_call_and_nothing_else() {
    let bench = Bench::new().await;
    let session = session(&bench.server).await;
    let error = session.request(Panic).await.unwrap_err();
    assert_eq!(error.code(), Some(Code::Internal));
    assert!(!error.to_string().contains("purpose"), "{error}");
    assert_eq!(session.request(Count).await, Ok(101));
    assert_eq!(session.state(), SessionState::Connected);
    session.close().await;
    bench.over().await;
    let expected = ["hello 1", "welcome 1", "hello 2", "count", "bye 2", "bye 1 Normal Some(101)"];
    assert_eq!(bench.log.take(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_leaves_during_its_set_up_is_said_goodbye_to_once() {
    let bench = Bench::new().await;
    bench.shut_gate();
    let session = session(&bench.server).await;
    until("it is being set up", || !bench.log.0.lock().unwrap().is_empty()).await;
    session.close().await;
    bench.over().await;
    assert_eq!(bench.log.take(), ["hello 1", "bye 2", "bye 1 Normal None"]);
}

#[tokio::test(start_paused = true)]
async fn a_link_that_breaks_is_a_lost_connection() {
    let bench = Bench::new().await;
    let (ours, theirs) = tokio::io::duplex(1024);
    bench.server.serve_link(StreamLink::new(theirs));
    let client = Client::builder("").plaintext();
    let runtime = std::thread::spawn(|| {
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(drop)
    });
    let runtime = runtime.join().unwrap().unwrap();
    // The client's driver lives on a runtime that is torn down: nobody says goodbye.
    let connecting = runtime.spawn(client.connect_over(StreamLink::new(ours)));
    let thread = std::thread::spawn(move || {
        let session = runtime.block_on(connecting).unwrap().unwrap();
        runtime.shutdown_background();
        session
    });
    until("it is set up", || bench.log.0.lock().unwrap().iter().any(|event| event == "hello 2")).await;
    let session = thread.join().unwrap();
    bench.over().await;
    assert_eq!(bench.log.take(), ["hello 1", "welcome 1", "hello 2", "bye 2", "bye 1 Lost Some(100)"]);
    assert_eq!(session.closed().await.code, CloseCode::Lost);
}

#[tokio::test(start_paused = true)]
async fn what_comes_along_with_the_last_word_of_the_handshake_is_not_left_lying() {
    let server =
        Server::builder().plaintext().no_listener().controller(Greeter).build().await.unwrap().spawn().0;
    let log = Log::default();
    let (ours, theirs) = memory::pair(64 * 1024);
    server.serve_link(theirs);
    let client = Client::builder("").plaintext().controller(Guest(log.clone()));
    let _session = client.connect_over(ours).await.unwrap();
    until("the packet is there", || !log.0.lock().unwrap().is_empty()).await;
    assert_eq!(log.take(), ["welcome 7"]);
}

#[tokio::test(start_paused = true)]
async fn a_hook_may_call_its_own_client() {
    let bench = Bench::new().await;
    bench.asks.store(true, SeqCst);
    let (ours, theirs) = memory::pair(7);
    bench.server.serve_link(theirs);
    let client = Client::builder("").plaintext().controller(Me(42));
    let session = within("the connection", client.connect_over(ours)).await.unwrap();
    assert_eq!(within("the call", session.request(Count).into_future()).await, Ok(101));
    assert_eq!(bench.log.take(), ["hello 1", "Ok(42)", "welcome 1", "hello 2", "count"]);
}

#[tokio::test(start_paused = true)]
async fn no_hook_runs_for_a_peer_that_fails_its_handshake() {
    let bench = Bench::new().await;
    let garbage: [&[u8]; 5] =
        [b"", b"\x01", b"GET / HTTP/1.1\r\n\r\n", &[0, 5, 0, 0, b'n', b'a', b'l', b'i'], &[0xff; 100]];
    for bytes in garbage {
        let (mut raw, theirs) = tokio::io::duplex(1024);
        bench.server.serve_link(StreamLink::new(theirs));
        raw.write_all(bytes).await.unwrap();
        drop(raw);
    }
    let (stalled, theirs) = tokio::io::duplex(1024);
    bench.server.serve_link(StreamLink::new(theirs));
    tokio::time::sleep(Options::default().handshake_timeout + Duration::from_secs(5)).await;
    drop(stalled);
    assert!(bench.log.take().is_empty());
    assert_eq!(bench.server.connection_count(), 0);
}
