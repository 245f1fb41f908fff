//! The same policies as layers around all handlers.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::time::Duration;

use nalix_core::packet::NoError;
use nalix_server::{
    Call, Code, Permission, RateKey, RequestError, Router, Server, ServerHandle,
    layer::{Concurrency, Permission as PermissionLayer, RateLimit, Timeout},
    packet, packet_controller,
};
use support::{Live, session, soon};
use tokio::{
    sync::Semaphore,
    time::{Instant, advance},
};
use tower::{Layer, Service, ServiceBuilder, limit::ConcurrencyLimitLayer};

#[packet(opcode = 0x1001, reply = u8)]
struct Quick;

#[packet(opcode = 0x1002, reply = u8)]
struct Other;

#[packet(opcode = 0x1003, reply = ())]
struct Hold;

#[derive(Clone)]
struct Lab {
    live: Live,
    go: std::sync::Arc<Semaphore>,
}

#[packet_controller]
impl Lab {
    #[packet]
    fn quick(&self, _: Quick) -> u8 {
        1
    }

    #[packet]
    fn other(&self, _: Other) -> u8 {
        2
    }

    #[packet(concurrent)]
    async fn hold(&self, _: Hold) {
        let _guard = self.live.enter();
        self.go.acquire().await.unwrap().forget();
    }
}

async fn lab<L>(layer: L) -> (Lab, ServerHandle)
where
    L: Layer<Router> + Send + Sync + 'static,
    L::Service: Service<Call, Response = nalix_server::Reply> + Clone + Send + 'static,
    <L::Service as Service<Call>>::Future: Send + 'static,
    <L::Service as Service<Call>>::Error: Into<tower::BoxError> + 'static,
{
    let lab = Lab { live: Live::default(), go: std::sync::Arc::new(Semaphore::new(0)) };
    let server = Server::builder().plaintext().no_listener().controller(lab.clone()).layer(layer);
    (lab, server.build().await.unwrap().handle())
}

fn code<T: std::fmt::Debug>(result: Result<T, RequestError<NoError>>) -> Code {
    match result {
        Err(RequestError::Status(status)) => status.code,
        other => panic!("a status was expected: {other:?}"),
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_rate_counts_the_calls_of_all_handlers() {
    let rate = RateLimit::new("2/s".parse().unwrap()).key(RateKey::Session).capacity(100);
    let (_lab, server) = lab(rate).await;
    let one = session(&server).await;
    one.request(Quick).await.unwrap();
    one.request(Other).await.unwrap();
    let Err(RequestError::Status(status)) = one.request(Quick).await else { panic!("a third") };
    assert_eq!((status.code, status.retry_after()), (Code::ResourceExhausted, Some(SECOND / 2)));
    session(&server).await.request(Quick).await.unwrap();
    advance(SECOND / 2).await;
    one.request(Quick).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_permission_holds_for_all_handlers() {
    let (_lab, server) = lab(PermissionLayer::new(Permission::GUEST)).await;
    let session = session(&server).await;
    assert_eq!(code(session.request(Quick).await), Code::PermissionDenied);
    server.connections()[0].set_permission(Permission::USER);
    session.request(Quick).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn so_many_run_and_so_many_wait() {
    let (lab, server) = lab(Concurrency::new(1).queue(1).wait(SECOND)).await;
    let (one, other) = (session(&server).await, session(&server).await);
    let running = tokio::spawn(async move { one.request(Hold).await });
    lab.live.is(1).await;
    let start = Instant::now();
    let (waits, refused) =
        tokio::join!(async { other.request(Hold).await }, async { other.request(Quick).await.map(drop) },);
    assert_eq!((code(waits), code(refused)), (Code::ResourceExhausted, Code::ResourceExhausted));
    assert_eq!(start.elapsed().as_secs(), 1);
    lab.go.add_permits(1);
    soon(running).await.unwrap().unwrap();
    other.request(Quick).await.unwrap();
    assert_eq!(lab.live.entered(), 1);
}

#[tokio::test(start_paused = true)]
async fn no_call_takes_longer() {
    let (lab, server) = lab(Timeout::new(3 * SECOND)).await;
    let session = session(&server).await;
    let start = Instant::now();
    assert_eq!(code(session.request(Hold).await), Code::DeadlineExceeded);
    assert_eq!(start.elapsed().as_secs(), 3);
    lab.live.is(0).await;
    session.request(Quick).await.unwrap();
}

/// What is refused has made the inner service ready for nothing, and must not keep that.
#[tokio::test(start_paused = true)]
async fn a_refused_call_keeps_no_permit_of_the_layers_below() {
    let layers = ServiceBuilder::new()
        .layer(RateLimit::new("1/h".parse().unwrap()))
        .layer(Concurrency::new(8))
        .layer(ConcurrencyLimitLayer::new(1));
    let (_lab, server) = lab(layers.into_inner()).await;
    let one = session(&server).await;
    one.request(Quick).await.unwrap();
    for _ in 0..3 {
        assert_eq!(code(one.request(Quick).await), Code::ResourceExhausted);
    }
    let other = session(&server).await;
    soon(async { other.request(Quick).await }).await.unwrap();
}
