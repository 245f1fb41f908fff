//! Layers around the handlers: readiness, permits, clones, order, and what callers see.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::{Context, Poll},
    time::Duration,
};

use nalix_core::{
    connection::{Driver, Serving, connect},
    handshake::{ClientSecurity, Contracts},
    packet::NoError,
};
use nalix_server::{
    Call, Code, Connection, Options, RequestError, Router, Server, ServerBuilder, ServerHandle, Status,
    link::memory, packet, packet_controller,
};
use support::{Live, session, until, within};
use tokio::{
    sync::Semaphore,
    task::{JoinHandle, JoinSet},
    time::Instant,
};
use tower::{
    Layer, Service, ServiceBuilder,
    buffer::BufferLayer,
    layer::{layer_fn, util::Identity},
    limit::{ConcurrencyLimitLayer, RateLimitLayer},
    load_shed::LoadShedLayer,
    timeout::TimeoutLayer,
};

#[packet(opcode = 0x1001, reply = u32)]
struct Work {
    id: u32,
}

/// Waits until the test lets it go on.
#[packet(opcode = 0x1002, reply = ())]
struct Hold;

#[packet(opcode = 0x1003, reply = ())]
struct Panic;

#[packet(opcode = 0x1004)]
struct Filler {
    bytes: Vec<u8>,
}

#[derive(Clone)]
struct Lab {
    running: Live,
    gate: Arc<Semaphore>,
}

impl Lab {
    fn new() -> Self {
        Self { running: Live::default(), gate: Arc::new(Semaphore::new(0)) }
    }
}

#[packet_controller]
impl Lab {
    #[packet(concurrent)]
    async fn work(&self, work: Work) -> u32 {
        let _inside = self.running.enter();
        tokio::time::sleep(Duration::from_millis(1)).await;
        work.id
    }

    #[packet(concurrent)]
    async fn hold(&self, _: Hold) -> Result<(), Status> {
        let _inside = self.running.enter();
        self.gate.acquire().await.map_err(|_| Status::internal("closed"))?.forget();
        Ok(())
    }

    #[packet]
    fn panic(&self, _: Panic) {
        panic!("on purpose");
    }
}

type Outcome = Result<u32, RequestError<NoError>>;

fn builder(lab: &Lab) -> ServerBuilder {
    Server::builder().plaintext().no_listener().controller(lab.clone())
}

fn run(server: Server) -> ServerHandle {
    server.spawn().0
}

/// 100 calls at once on 10 connections.
async fn hundred_calls(server: &ServerHandle) -> Vec<Outcome> {
    let mut calls = JoinSet::new();
    for i in 0..10 {
        let session = session(server).await;
        for j in 0..10 {
            let session = session.clone();
            calls.spawn(async move {
                let id = i * 10 + j;
                session
                    .request(Work { id })
                    .timeout(Duration::from_secs(3600))
                    .await
                    .inspect(|&n| assert_eq!(n, id))
            });
        }
    }
    calls.join_all().await
}

fn assert_all_ok(outcomes: &[Outcome]) {
    assert_eq!(outcomes.len(), 100);
    for outcome in outcomes {
        assert!(outcome.is_ok(), "{outcome:?}");
    }
}

/// Counts calls without readiness, which a real service answers with a panic.
#[derive(Debug)]
struct Probe<S> {
    inner: S,
    ready: bool,
    violations: Arc<AtomicUsize>,
}

impl<S: Clone> Clone for Probe<S> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), ready: false, violations: Arc::clone(&self.violations) }
    }
}

impl<S: Service<Call>> Service<Call> for Probe<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        let ready = self.inner.poll_ready(cx);
        self.ready = matches!(ready, Poll::Ready(Ok(())));
        ready
    }

    fn call(&mut self, call: Call) -> S::Future {
        if !std::mem::take(&mut self.ready) {
            self.violations.fetch_add(1, SeqCst);
            panic!("called without being ready");
        }
        self.inner.call(call)
    }
}

/// A layer of probes, and what they have counted.
macro_rules! probe {
    ($violations:ident) => {{
        let violations = Arc::clone(&$violations);
        layer_fn(move |inner| Probe { inner, ready: false, violations: Arc::clone(&violations) })
    }};
}

#[tokio::test(start_paused = true)]
async fn a_concurrency_limit_holds_across_connections_and_loses_no_permit() {
    let (lab, violations) = (Lab::new(), Arc::new(AtomicUsize::new(0)));
    let layers =
        ServiceBuilder::new().layer(probe!(violations)).layer(ConcurrencyLimitLayer::new(1)).into_inner();
    let server = run(builder(&lab).layer(layers).build().await.unwrap());
    for _ in 0..3 {
        assert_all_ok(&within("calls", hundred_calls(&server)).await);
    }
    assert_eq!((lab.running.peak(), lab.running.count(), violations.load(SeqCst)), (1, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_buffer_of_one_is_backpressure_and_not_a_deadlock() {
    let (lab, violations) = (Lab::new(), Arc::new(AtomicUsize::new(0)));
    let layers = ServiceBuilder::new()
        .layer(probe!(violations))
        .layer(BufferLayer::new(1))
        .layer(ConcurrencyLimitLayer::new(1))
        .layer(probe!(violations))
        .into_inner();
    let server = run(builder(&lab).layer(layers).build().await.unwrap());
    assert_all_ok(&within("calls", hundred_calls(&server)).await);
    assert_eq!((lab.running.peak(), violations.load(SeqCst)), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn shed_load_is_resource_exhausted_and_worth_another_try() {
    let (lab, violations) = (Lab::new(), Arc::new(AtomicUsize::new(0)));
    let layers = ServiceBuilder::new()
        .layer(probe!(violations))
        .layer(LoadShedLayer::new())
        .layer(ConcurrencyLimitLayer::new(1))
        .into_inner();
    let server = run(builder(&lab).layer(layers).build().await.unwrap());
    let outcomes = within("calls", hundred_calls(&server)).await;
    let (ok, shed): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
    assert!(!ok.is_empty() && !shed.is_empty(), "{} ok, {} shed", ok.len(), shed.len());
    for outcome in shed {
        let error = outcome.unwrap_err();
        assert_eq!(error.code(), Some(Code::ResourceExhausted), "{error}");
        assert!(error.is_retryable());
    }
    assert_eq!((lab.running.peak(), violations.load(SeqCst)), (1, 0));
    assert_eq!(session(&server).await.request(Work { id: 7 }).await, Ok(7), "no permit is lost");
}

#[tokio::test(start_paused = true)]
async fn a_rate_limit_is_backpressure() {
    let lab = Lab::new();
    let layers = ServiceBuilder::new()
        .layer(BufferLayer::new(1))
        .layer(RateLimitLayer::new(10, Duration::from_secs(1)))
        .into_inner();
    let server = run(builder(&lab).layer(layers).build().await.unwrap());
    let begun = Instant::now();
    assert_all_ok(&hundred_calls(&server).await);
    let took = begun.elapsed();
    assert!((9..=11).contains(&took.as_secs()), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_timeout_is_deadline_exceeded_and_stops_the_handler() {
    let lab = Lab::new();
    let layer = TimeoutLayer::new(Duration::from_millis(50));
    let server = run(builder(&lab).layer(layer).build().await.unwrap());
    let session = session(&server).await;
    let error = session.request(Hold).timeout(Duration::from_secs(3600)).await.unwrap_err();
    assert_eq!(error.code(), Some(Code::DeadlineExceeded), "{error}");
    assert_eq!((lab.running.entered(), lab.running.count()), (1, 0));
    assert_eq!(session.request(Work { id: 1 }).await, Ok(1));
}

#[tokio::test(start_paused = true)]
async fn every_layer_at_once() {
    let (lab, violations) = (Lab::new(), Arc::new(AtomicUsize::new(0)));
    let layers = ServiceBuilder::new()
        .layer(TimeoutLayer::new(Duration::from_secs(60)))
        .layer(probe!(violations))
        .layer(BufferLayer::new(1))
        .layer(probe!(violations))
        .layer(ConcurrencyLimitLayer::new(1))
        .layer(RateLimitLayer::new(1000, Duration::from_secs(1)))
        .layer(probe!(violations))
        .into_inner();
    let server = run(builder(&lab).layer(layers).build().await.unwrap());
    assert_all_ok(&within("calls", hundred_calls(&server)).await);
    assert_eq!((lab.running.peak(), violations.load(SeqCst)), (1, 0));
}

/// A server with room for one call, which is taken.
async fn full(lab: &Lab) -> (ServerHandle, JoinHandle<Result<(), RequestError<NoError>>>) {
    let server = run(builder(lab).layer(ConcurrencyLimitLayer::new(1)).build().await.unwrap());
    let holder = session(&server).await;
    let held = tokio::spawn(async move { holder.request(Hold).no_timeout().await });
    until("the call runs", || lab.running.count() == 1).await;
    (server, held)
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_call_does_not_keep_the_permit_it_waited_for() {
    let lab = Lab::new();
    let (server, held) = full(&lab).await;
    let waiting = session(&server).await;
    let timeout = Duration::from_millis(10);
    assert_eq!(waiting.request(Work { id: 1 }).timeout(timeout).await, Err(RequestError::Timeout));
    {
        let mut dropped = pin!(waiting.connection().request(Work { id: 2 }).into_future());
        let mut other = pin!(tokio::time::sleep(timeout));
        tokio::select! {
            _ = &mut dropped => panic!("there is no room for it"),
            () = &mut other => {}
        }
    }
    until("the server has stopped both", || waiting.connection().calls_in_flight() == 0).await;
    lab.gate.add_permits(1);
    held.await.unwrap().unwrap();
    assert_eq!(session(&server).await.request(Work { id: 3 }).await, Ok(3));
    assert_eq!(waiting.request(Work { id: 4 }).await, Ok(4));
    assert_eq!(lab.running.peak(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_ends_does_not_keep_the_permit_it_waited_for() {
    let lab = Lab::new();
    let (server, held) = full(&lab).await;
    let waiting = session(&server).await;
    let call = tokio::spawn({
        let waiting = waiting.clone();
        async move { waiting.request(Work { id: 1 }).await }
    });
    tokio::time::sleep(Duration::from_millis(1)).await;
    waiting.close().await;
    assert!(matches!(call.await.unwrap(), Err(RequestError::Disconnected { .. })));
    lab.gate.add_permits(1);
    held.await.unwrap().unwrap();
    assert_eq!(session(&server).await.request(Work { id: 2 }).await, Ok(2));
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_drains_does_not_keep_the_permit_it_waited_for() {
    let lab = Lab::new();
    let (server, held) = full(&lab).await;
    let ours = session(&server).await;
    let theirs = session(&server).await;
    let id = server.connections().iter().map(Connection::id).max().unwrap();
    let call = tokio::spawn(async move { theirs.request(Work { id: 1 }).await });
    tokio::time::sleep(Duration::from_millis(1)).await;
    server.connection(id).unwrap().drain(Duration::from_secs(3600));
    let error = call.await.unwrap().unwrap_err();
    assert_eq!(error.code(), Some(Code::Unavailable), "{error}");
    lab.gate.add_permits(1);
    held.await.unwrap().unwrap();
    assert_eq!(ours.request(Work { id: 2 }).await, Ok(2));
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_does_not_read_does_not_keep_the_permit_its_call_waits_for() {
    let lab = Lab::new();
    let mut options = Options::default();
    options.outbox = 1024;
    let limit = ConcurrencyLimitLayer::new(1);
    let server = run(builder(&lab).options(options).layer(limit).build().await.unwrap());

    let (link, theirs) = memory::pair(64);
    server.serve_link(theirs);
    let established =
        connect(link, Contracts::default(), &ClientSecurity::Plaintext, &Options::default()).await.unwrap();
    let (deaf, mut driver) = Driver::new(established, Serving::from(Router::empty()), &Options::default());

    let holder = session(&server).await;
    let held = tokio::spawn(async move { holder.request(Hold).no_timeout().await });
    until("the call runs", || lab.running.count() == 1).await;
    let waiting = tokio::spawn(async move { deaf.request(Work { id: 1 }).await });
    tokio::select! {
        reason = &mut driver => panic!("{reason}"),
        () = tokio::time::sleep(Duration::from_millis(5)) => {}
    }
    // From here on the driver is not polled: nothing is read.
    let id = server.connections().iter().map(Connection::id).min().unwrap();
    let connection = server.connection(id).unwrap();
    while connection.try_send(&Filler { bytes: vec![0; 500] }).is_ok() {
        tokio::task::yield_now().await;
    }
    lab.gate.add_permits(1);
    held.await.unwrap().unwrap();
    let begun = Instant::now();
    assert_eq!(session(&server).await.request(Work { id: 2 }).await, Ok(2));
    assert!(begun.elapsed() < Duration::from_secs(1));
    drop(driver);
    assert!(waiting.await.unwrap().is_err());
}

/// What a [`Moody`] service says when it is asked whether it is ready.
#[derive(Debug, Clone, Copy)]
enum Mood {
    Ready,
    Pending,
    Failing,
    Panicking,
}

/// A service whose readiness the test decides.
#[derive(Clone)]
struct Moody<S> {
    inner: S,
    mood: Arc<Mutex<(Mood, Vec<std::task::Waker>)>>,
}

fn set_mood(mood: &Mutex<(Mood, Vec<std::task::Waker>)>, new: Mood) {
    let mut mood = mood.lock().unwrap();
    mood.0 = new;
    mood.1.drain(..).for_each(std::task::Waker::wake);
}

impl<S: Service<Call, Error: Into<tower::BoxError>>> Service<Call> for Moody<S>
where
    S::Future: Send + 'static,
    S::Response: 'static,
{
    type Response = S::Response;
    type Error = tower::BoxError;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<S::Response, tower::BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), tower::BoxError>> {
        let mut mood = self.mood.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match mood.0 {
            Mood::Ready => Poll::Ready(Ok(())),
            Mood::Pending => {
                mood.1.push(cx.waker().clone());
                Poll::Pending
            }
            Mood::Failing => Poll::Ready(Err("a secret of the layer".into())),
            Mood::Panicking => panic!("on purpose"),
        }
    }

    fn call(&mut self, call: Call) -> Self::Future {
        let future = self.inner.call(call);
        Box::pin(async move { future.await.map_err(Into::into) })
    }
}

async fn moody(mood: Mood) -> (ServerHandle, Arc<Mutex<(Mood, Vec<std::task::Waker>)>>) {
    let mood = Arc::new(Mutex::new((mood, Vec::new())));
    let layer = layer_fn({
        let mood = Arc::clone(&mood);
        move |inner: Router| Moody { inner, mood: Arc::clone(&mood) }
    });
    (run(builder(&Lab::new()).layer(layer).build().await.unwrap()), mood)
}

#[tokio::test(start_paused = true)]
async fn calls_wait_for_a_service_that_is_not_ready() {
    let (server, mood) = moody(Mood::Pending).await;
    let session = session(&server).await;
    let calls: Vec<_> = (0..10)
        .map(|id| {
            let session = session.clone();
            tokio::spawn(async move { session.request(Work { id }).await })
        })
        .collect();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(calls.iter().all(|call| !call.is_finished()));
    set_mood(&mood, Mood::Ready);
    for (id, call) in (0..).zip(calls) {
        assert_eq!(call.await.unwrap(), Ok(id));
    }
}

#[tokio::test(start_paused = true)]
async fn the_deadline_of_a_call_passes_while_a_service_is_never_ready() {
    let (server, _mood) = moody(Mood::Pending).await;
    let session = session(&server).await;
    let begun = Instant::now();
    let outcome = session.request(Work { id: 1 }).timeout(Duration::from_secs(2)).await;
    match outcome {
        Err(RequestError::Timeout) => {}
        Err(error) => assert_eq!(error.code(), Some(Code::DeadlineExceeded), "{error}"),
        Ok(_) => panic!("it cannot have run"),
    }
    assert_eq!(begun.elapsed().as_secs(), 2);
    // The slot is free on both sides, and the connection is as good as before.
    until("the peer has answered", || session.connection().calls_in_flight() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_service_fails_those_who_wait_and_nobody_who_comes_when_it_is_well_again() {
    let (server, mood) = moody(Mood::Pending).await;
    let session = session(&server).await;
    let calls: Vec<_> = (0..3)
        .map(|id| {
            let session = session.clone();
            tokio::spawn(async move { session.request(Work { id }).await })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(1)).await;
    set_mood(&mood, Mood::Failing);
    for call in calls {
        let error = call.await.unwrap().unwrap_err();
        assert_eq!(error.code(), Some(Code::Internal));
        assert!(!error.to_string().contains("secret"), "{error}");
    }
    let error = session.request(Work { id: 8 }).await.unwrap_err();
    assert_eq!(error.code(), Some(Code::Internal));
    set_mood(&mood, Mood::Ready);
    assert_eq!(session.request(Work { id: 9 }).await, Ok(9));
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_poll_ready_fails_the_call_and_not_the_connection() {
    let (server, mood) = moody(Mood::Panicking).await;
    let session = session(&server).await;
    assert_eq!(session.request(Work { id: 1 }).await.unwrap_err().code(), Some(Code::Internal));
    {
        let mut mood = mood.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        mood.0 = Mood::Ready;
    }
    assert_eq!(session.request(Work { id: 2 }).await, Ok(2));
    assert_eq!(server.connection_count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_a_handler_does_not_take_the_worker_of_a_buffer_along() {
    let lab = Lab::new();
    let server = run(builder(&lab).layer(BufferLayer::new(4)).build().await.unwrap());
    let session = session(&server).await;
    for id in 0..3 {
        assert_eq!(session.request(Panic).await.unwrap_err().code(), Some(Code::Internal));
        assert_eq!(session.request(Work { id }).await, Ok(id));
    }
}

#[tokio::test(start_paused = true)]
async fn a_permit_comes_back_when_its_handler_panics() {
    let lab = Lab::new();
    let server = run(builder(&lab).layer(ConcurrencyLimitLayer::new(1)).build().await.unwrap());
    let session = session(&server).await;
    for id in 0..3 {
        assert_eq!(session.request(Panic).await.unwrap_err().code(), Some(Code::Internal));
        assert_eq!(session.request(Work { id }).await, Ok(id));
    }
}

/// Notes its name for each call that passes.
#[derive(Clone)]
struct Named<S> {
    inner: S,
    name: &'static str,
    log: Arc<Mutex<Vec<&'static str>>>,
}

#[derive(Clone)]
struct NamedLayer {
    name: &'static str,
    log: Arc<Mutex<Vec<&'static str>>>,
}

impl<S> Layer<S> for NamedLayer {
    type Service = Named<S>;

    fn layer(&self, inner: S) -> Named<S> {
        Named { inner, name: self.name, log: Arc::clone(&self.log) }
    }
}

impl<S: Service<Call>> Service<Call> for Named<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, call: Call) -> S::Future {
        self.log.lock().unwrap().push(self.name);
        self.inner.call(call)
    }
}

#[tokio::test(start_paused = true)]
async fn the_layer_that_is_added_first_sees_a_call_first() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let named = |name| NamedLayer { name, log: Arc::clone(&log) };
    let both = ServiceBuilder::new().layer(named("2")).layer(named("3")).into_inner();
    let server = builder(&Lab::new()).layer(named("1")).layer(both).layer(Identity::new()).layer(named("4"));
    let server = run(server.build().await.unwrap());
    assert_eq!(session(&server).await.request(Work { id: 1 }).await, Ok(1));
    assert_eq!(*log.lock().unwrap(), ["1", "2", "3", "4"]);
}

/// Refuses every call with a status of its own.
#[derive(Clone)]
struct Bouncer;

impl Service<Call> for Bouncer {
    type Response = nalix_server::Reply;
    type Error = Status;
    type Future = std::future::Ready<Result<nalix_server::Reply, Status>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Call) -> Self::Future {
        std::future::ready(Err(Status::permission_denied("not you")))
    }
}

#[tokio::test(start_paused = true)]
async fn a_status_of_a_layer_reaches_the_caller_as_it_is() {
    let server = builder(&Lab::new()).layer(layer_fn(|_: Router| Bouncer));
    let server = run(server.build().await.unwrap());
    let error = session(&server).await.request(Work { id: 1 }).await.unwrap_err();
    assert_eq!(error, RequestError::Status(Status::permission_denied("not you")));
}
