//! What clients and handlers see of a drain, and how it is cut short.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{sync::Arc, time::Duration};

use nalix_client::SessionState;
use nalix_core::{
    connection::{Driver, Serving, connect},
    handshake::{ClientSecurity, Contracts},
};
use nalix_server::{
    Advice, CloseCode, Code, Context, DrainReport, Options, RequestError, Router, Server, ServerHandle,
    Stream, StreamError, link::memory, packet, packet_controller,
};
use support::{Live, eventually, from_fn, session, soon, within};
use tokio::{
    sync::Notify,
    task::JoinHandle,
    time::{Instant, sleep},
};

#[packet(opcode = 0x1001, reply = u32)]
struct Hold;

#[packet(opcode = 0x1002, stream = u32)]
struct Endless;

#[packet(opcode = 0x1003, reply = u32)]
struct UntilDrain;

#[packet(opcode = 0x1004, reply = Vec<u8>)]
struct Large;

#[derive(Clone, Default)]
struct Lab {
    running: Live,
}

#[packet_controller]
impl Lab {
    #[packet(concurrent)]
    async fn hold(&self, _: Hold) -> u32 {
        let _inside = self.running.enter();
        std::future::pending().await
    }

    #[packet(concurrent)]
    fn endless(&self, _: Endless) -> impl Stream<Item = u32> + use<> {
        let inside = self.running.enter();
        let mut first = Some(1);
        from_fn(move |_| {
            let _inside = &inside;
            match first.take() {
                Some(item) => std::task::Poll::Ready(Some(item)),
                None => std::task::Poll::Pending,
            }
        })
    }

    #[packet(concurrent)]
    async fn until_drain(&self, ctx: &Context, _: UntilDrain) -> u32 {
        let _inside = self.running.enter();
        ctx.draining().await;
        9
    }

    #[packet(concurrent)]
    fn large(&self, _: Large) -> Vec<u8> {
        vec![1; 300_000]
    }
}

/// A server without listeners, what stops it and what forces it.
async fn start(drain: Duration) -> (ServerHandle, Arc<Notify>, Arc<Notify>, JoinHandle<DrainReport>, Lab) {
    let lab = Lab::default();
    let server = Server::builder().plaintext().controller(lab.clone()).drain_timeout(drain).no_listener();
    let server = server.build().await.unwrap();
    let handle = server.handle();
    let (stop, force) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (first, second) = (Arc::clone(&stop), Arc::clone(&force));
    let running = async move { server.run_until_forced(first.notified(), second.notified()).await.unwrap() };
    (handle, stop, force, tokio::spawn(running), lab)
}

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

#[tokio::test(start_paused = true)]
async fn a_client_sees_until_when_the_server_waits() {
    let (server, stop, _force, running, lab) = start(secs(8)).await;
    let session = session(&server).await;
    let call = tokio::spawn({
        let session = session.clone();
        async move { session.request(Hold).no_timeout().await }
    });
    soon(lab.running.is(1)).await;
    let told = tokio::spawn({
        let session = session.clone();
        async move { session.draining().await }
    });
    sleep(secs(1)).await;
    assert!(!told.is_finished() && session.state() == SessionState::Connected && !server.is_draining());
    let begun = Instant::now().into_std();
    stop.notify_one();
    soon(told).await.unwrap();
    let SessionState::Draining { deadline: Some(deadline) } = session.state() else {
        panic!("{:?}", session.state());
    };
    let left = deadline - begun;
    assert!((8_000..8_200).contains(&left.as_millis()), "{left:?}");
    assert!(server.is_draining());
    let report = within("the drain", running).await.unwrap();
    assert_eq!((report.drained, report.forced), (0, 1));
    assert!(call.await.unwrap().is_err());
    // Who begins to wait when it is over, waits for nothing.
    soon(session.draining()).await;
}

#[tokio::test(start_paused = true)]
async fn a_second_signal_cuts_off_at_once_and_everybody_is_told_why() {
    let (server, stop, force, running, lab) = start(secs(3_600)).await;
    let sessions = [session(&server).await, session(&server).await];
    let calls: Vec<_> = sessions
        .iter()
        .map(|session| {
            let session = session.clone();
            tokio::spawn(async move { session.request(Hold).no_timeout().await })
        })
        .collect();
    soon(lab.running.is(2)).await;
    // Before the first, the second means nothing.
    force.notify_one();
    sleep(secs(1)).await;
    assert!(!server.is_draining());
    stop.notify_one();
    let begun = Instant::now();
    let report = within("the end", running).await.unwrap();
    assert_eq!((report.drained, report.forced), (0, 2));
    assert!(begun.elapsed() < secs(2), "{:?}", begun.elapsed());
    for call in calls {
        let error = soon(call).await.unwrap().unwrap_err();
        assert!(matches!(&error, RequestError::Disconnected { maybe_executed: true, .. }), "{error:?}");
    }
    for session in sessions {
        let reason = session.closed().await;
        assert_eq!((reason.code, reason.advice), (CloseCode::GoingAway, Advice::Reconnect));
    }
    assert_eq!((lab.running.count(), server.connection_count(), server.queued_bytes()), (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn stop_now_ends_a_drain_and_a_server_that_does_not_drain_yet() {
    for drains in [true, false] {
        let (server, stop, _force, running, lab) = start(Duration::MAX).await;
        let session = session(&server).await;
        let call = tokio::spawn(async move { session.request(Hold).no_timeout().await });
        soon(lab.running.is(1)).await;
        if drains {
            stop.notify_one();
            sleep(secs(100)).await;
        }
        let begun = Instant::now();
        server.stop_now();
        assert_eq!(within("the end", running).await.unwrap().forced, 1);
        assert!(begun.elapsed() < secs(2), "{:?}", begun.elapsed());
        let error = call.await.unwrap().unwrap_err();
        assert!(
            matches!(&error, RequestError::Disconnected { reason, .. } if reason.code == CloseCode::GoingAway)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_endless_stream_ends_with_a_status_when_the_time_is_up() {
    let (server, stop, _force, running, lab) = start(secs(2)).await;
    let session = session(&server).await;
    let mut items = session.stream(Endless).await.unwrap();
    assert_eq!(soon(items.next()).await, Some(Ok(1)));
    soon(lab.running.is(1)).await;
    stop.notify_one();
    match soon(items.next()).await {
        Some(Err(StreamError::Status(status))) => {
            assert_eq!((status.code, status.advice), (Code::Unavailable, Advice::Reconnect));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(soon(items.next()).await, None);
    within("the drain", running).await.unwrap();
    assert_eq!(lab.running.count(), 0);
    assert_eq!(session.closed().await.code, CloseCode::GoingAway);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_watches_for_the_drain_is_done_in_time() {
    let (server, stop, _force, running, lab) = start(secs(60)).await;
    let session = session(&server).await;
    let call = tokio::spawn(async move { session.request(UntilDrain).no_timeout().await });
    soon(lab.running.is(1)).await;
    let begun = Instant::now();
    stop.notify_one();
    assert_eq!(soon(call).await.unwrap(), Ok(9));
    let report = within("the drain", running).await.unwrap();
    assert_eq!((report.drained, report.forced), (1, 0));
    assert!(begun.elapsed() < secs(1), "{:?}", begun.elapsed());
}

/// What has been answered has the time of the drain to be written, not that of a close.
#[tokio::test(start_paused = true)]
async fn a_client_that_reads_slowly_gets_its_answer_before_the_goodbye() {
    let lab = Lab::default();
    let mut options = Options::default();
    options.close_timeout = Duration::from_millis(100);
    let server = Server::builder().plaintext().controller(lab).drain_timeout(secs(30)).options(options);
    let server = server.no_listener().build().await.unwrap();
    let (handle, running) = server.spawn();
    let (link, theirs) = memory::pair(1024);
    handle.serve_link(theirs);
    let established =
        connect(link, Contracts::default(), &ClientSecurity::Plaintext, &Options::default()).await.unwrap();
    let (slow, driver) = Driver::new(established, Serving::from(Router::empty()), &Options::default());
    // It reads as much as one turn does, and then nothing for a while.
    let mut driver = Box::pin(driver);
    let mut pause = Box::pin(sleep(Duration::ZERO));
    let driving = tokio::spawn(std::future::poll_fn(move |cx| {
        if pause.as_mut().poll(cx).is_pending() {
            return std::task::Poll::Pending;
        }
        pause.as_mut().reset(Instant::now() + Duration::from_millis(50));
        let _ = pause.as_mut().poll(cx);
        driver.as_mut().poll(cx)
    }));
    let call = tokio::spawn({
        let slow = slow.clone();
        async move { slow.request(Large).no_timeout().await }
    });
    eventually("the answer waits", || handle.queued_bytes() > 100_000 || call.is_finished()).await;
    handle.shutdown();
    let begun = Instant::now();
    let reply = timeout_of(secs(29), call).await;
    assert_eq!(reply.unwrap().len(), 300_000);
    assert!(begun.elapsed() > Duration::from_millis(200), "it was not slow: {:?}", begun.elapsed());
    let report = within("the drain", running).await.unwrap().unwrap();
    assert_eq!((report.drained, report.forced), (1, 0));
    assert_eq!(soon(driving).await.unwrap().code, CloseCode::GoingAway);
}

async fn timeout_of<T>(time: Duration, task: JoinHandle<T>) -> T {
    tokio::time::timeout(time, task).await.expect("in time").expect("no panic")
}
