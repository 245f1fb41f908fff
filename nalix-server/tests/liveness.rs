//! Peers that fall silent, connections that nobody uses, and what it costs to notice.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context as TaskContext, Poll},
    time::Duration,
};

use nalix_client::{Client, Session};
use nalix_core::{
    connection::{Driver, Serving, accept, connect},
    frame::{FrameKind, Head},
    handshake::{ClientSecurity, Contracts, ServerSecurity},
};
use nalix_server::{
    CloseCode, Options, RequestError, Router, ServerHandle, Status, link::StreamLink, link::memory, packet,
    packet_controller,
};
use support::{Both, Live, RawPeer, frame, server, soon, until};
use tokio::{
    io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf, duplex},
    sync::Semaphore,
    time::{Instant, sleep, timeout},
};

#[packet(opcode = 0x1001, reply = u32)]
struct Quick {
    n: u32,
}

#[packet(opcode = 0x1002, reply = u32)]
struct Hold;

#[packet(opcode = 0x1003)]
struct Moved {
    x: u32,
}

#[derive(Clone)]
struct Lab {
    running: Live,
    executed: Arc<AtomicUsize>,
    gate: Arc<Semaphore>,
}

impl Lab {
    fn new() -> Self {
        Self { running: Live::default(), executed: Arc::default(), gate: Arc::new(Semaphore::new(0)) }
    }
}

#[packet_controller]
impl Lab {
    #[packet]
    fn quick(&self, quick: Quick) -> u32 {
        self.executed.fetch_add(1, Ordering::Relaxed);
        quick.n
    }

    #[packet(concurrent)]
    async fn hold(&self, _: Hold) -> Result<u32, Status> {
        let _inside = self.running.enter();
        self.gate.acquire().await.map_err(|_| Status::internal("closed"))?.forget();
        Ok(7)
    }
}

/// A link whose peer can vanish: nothing comes any more, and what is written is lost, as long as it is cut.
struct Cable {
    stream: DuplexStream,
    cut: Arc<AtomicBool>,
}

impl AsyncRead for Cable {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut TaskContext<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.cut.load(Ordering::Relaxed) {
            return Poll::Pending;
        }
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Cable {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.cut.load(Ordering::Relaxed) {
            return Poll::Ready(Ok(buf.len()));
        }
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        if self.cut.load(Ordering::Relaxed) {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// A client over a cable, which can be cut.
async fn cabled(server: &ServerHandle, options: Options) -> (Session, Arc<AtomicBool>) {
    let (ours, theirs) = duplex(64 * 1024);
    let cut = Arc::new(AtomicBool::new(false));
    server.serve_link(StreamLink::new(Cable { stream: theirs, cut: Arc::clone(&cut) }));
    let link = StreamLink::new(Cable { stream: ours, cut: Arc::clone(&cut) });
    let session = Client::builder("").plaintext().options(options).connect_over(link).await.unwrap();
    (session, cut)
}

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Options that send no pings.
fn quiet() -> Options {
    let mut options = Options::default();
    options.keep_alive = None;
    options
}

#[tokio::test(start_paused = true)]
async fn idle_peers_that_vanish_are_noticed_by_both_ends() {
    let server = server(Lab::new(), Options::default()).await;
    let (session, cut) = cabled(&server, Options::default()).await;
    let theirs = server.connections().remove(0);
    cut.store(true, Ordering::Relaxed);
    let cut_at = Instant::now();
    let reason = soon(session.closed()).await;
    assert_eq!(reason.code, CloseCode::KeepAliveTimeout, "{reason}");
    let reason = soon(theirs.closed()).await;
    assert_eq!(reason.code, CloseCode::KeepAliveTimeout, "{reason}");
    // An interval, the time for an answer, and the goodbye that nobody hears.
    assert!(cut_at.elapsed() <= secs(15 + 15 + 2), "{:?}", cut_at.elapsed());
    until("the place is free", || server.connection_count() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_call_of_a_client_whose_server_vanished_fails_within_the_keep_alive_time() {
    let lab = Lab::new();
    let server = server(lab.clone(), Options::default()).await;
    let (session, cut) = cabled(&server, Options::default()).await;
    let call = tokio::spawn({
        let session = session.clone();
        async move { session.request(Hold).no_timeout().await }
    });
    until("it runs", || lab.running.count() == 1).await;
    cut.store(true, Ordering::Relaxed);
    let cut_at = Instant::now();
    let error = soon(call).await.unwrap().unwrap_err();
    assert!(matches!(&error, RequestError::Disconnected { maybe_executed: true, .. }), "{error:?}");
    assert!(cut_at.elapsed() <= secs(32), "{:?}", cut_at.elapsed());
    // And the server stops the handler, whose caller is gone.
    soon(lab.running.is(0)).await;
    assert!(cut_at.elapsed() <= secs(36), "{:?}", cut_at.elapsed());
}

/// Sends a frame now and then, and counts the pings that come.
async fn pings_within(peer: &mut RawPeer, time: Duration) -> usize {
    let mut pings = 0;
    let end = Instant::now() + time;
    while let Ok(Some(frame)) = tokio::time::timeout_at(end, peer.frame()).await {
        pings += usize::from(frame.kind == FrameKind::Ping);
    }
    pings
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_talks_gets_no_pings() {
    let server = server(Lab::new(), Options::default()).await;
    let mut peer = RawPeer::connect(&server).await;
    for _ in 0..12 {
        peer.send(&[frame(Head::plain(FrameKind::Pong), b"")]).await;
        assert_eq!(pings_within(&mut peer, secs(10)).await, 0);
    }
    assert_eq!(pings_within(&mut peer, secs(6)).await, 1, "it has fallen silent");
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_does_not_answer_pings_but_talks_stays() {
    let server = server(Lab::new(), Options::default()).await;
    let mut peer = RawPeer::connect(&server).await;
    assert_eq!(pings_within(&mut peer, secs(16)).await, 1);
    for _ in 0..10 {
        peer.send(&[frame(Head::plain(FrameKind::Pong), b"not what was asked")]).await;
        assert_eq!(pings_within(&mut peer, secs(10)).await, 0);
    }
    assert_eq!(server.connection_count(), 1);
    let reason = peer.goodbye().await;
    assert_eq!(reason.code, CloseCode::KeepAliveTimeout);
}

#[tokio::test(start_paused = true)]
async fn no_pings_unless_asked_for_and_a_silent_peer_stays_for_ever() {
    let server = server(Lab::new(), quiet()).await;
    let mut peer = RawPeer::connect(&server).await;
    for _ in 0..40 {
        assert_eq!(pings_within(&mut peer, secs(90)).await, 0);
    }
    assert_eq!(server.connection_count(), 1);
}

/// What has come must be read before the peer is said to be silent: it may be this process that slept.
#[tokio::test(start_paused = true)]
async fn a_process_that_was_stopped_does_not_drop_peers_that_have_answered() {
    let both = Both::with(Lab::new(), Options::default()).await;
    let session = both.client().await;
    for _ in 0..20 {
        // Nobody runs meanwhile, and then everybody is late at once.
        tokio::time::advance(secs(600)).await;
        tokio::task::yield_now().await;
    }
    assert_eq!(session.request(Quick { n: 4 }).await, Ok(4));
    assert_eq!(both.server.connection_count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_read_since_its_handlers_are_slow_does_not_take_its_client_for_dead() {
    let lab = Lab::new();
    let mut options = Options::default();
    options.max_calls = 1;
    options.max_queued = 1;
    let both = Both::with(lab.clone(), options).await;
    let session = both.client().await;
    let call = tokio::spawn({
        let session = session.clone();
        async move { session.request(Hold).no_timeout().await }
    });
    until("it runs", || lab.running.count() == 1).await;
    for x in 0..10_000 {
        if session.try_send(&Moved { x }).is_err() {
            break;
        }
    }
    sleep(secs(600)).await;
    lab.gate.add_permits(1);
    assert_eq!(soon(call).await.unwrap(), Ok(7));
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_nobody_uses_is_closed_however_many_pings_it_carries() {
    let mut options = Options::default();
    options.idle_timeout = Some(secs(60));
    let both = Both::with(Lab::new(), options).await;
    let session = both.client().await;
    let begun = Instant::now();
    let reason = soon(session.closed()).await;
    assert_eq!(reason.code, CloseCode::IdleTimeout);
    assert_eq!(begun.elapsed().as_secs(), 60);
}

#[tokio::test(start_paused = true)]
async fn traffic_in_either_direction_and_running_calls_keep_a_connection_in_use() {
    let lab = Lab::new();
    let mut options = Options::default();
    options.idle_timeout = Some(secs(60));
    let both = Both::with(lab.clone(), options).await;
    let session = both.client().await;
    let theirs = both.server_end().await;
    for x in 0..10 {
        sleep(secs(50)).await;
        session.send(&Moved { x }).await.unwrap();
    }
    for x in 0..10 {
        sleep(secs(50)).await;
        theirs.send(&Moved { x }).await.unwrap();
    }
    let call = tokio::spawn({
        let session = session.clone();
        async move { session.request(Hold).no_timeout().await }
    });
    soon(lab.running.is(1)).await;
    sleep(secs(1_000)).await;
    assert!(theirs.close_reason().is_none());
    lab.gate.add_permits(1);
    assert_eq!(soon(call).await.unwrap(), Ok(7));
    let begun = Instant::now();
    let reason = timeout(secs(200), session.closed()).await.expect("it is over");
    assert_eq!(reason.code, CloseCode::IdleTimeout);
    assert!((60..=120).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
}

/// The request and the close cross on the way: whoever is not answered knows whether it may have run.
#[tokio::test(start_paused = true)]
async fn a_request_that_crosses_the_idle_close_is_answered_or_said_to_be_lost() {
    let lab = Lab::new();
    let mut options = quiet();
    options.idle_timeout = Some(millis(100));
    let both = Both::with(lab.clone(), options).await;
    let (mut answered, mut unknown, mut unsent) = (0, 0, 0);
    for round in 0..400_u64 {
        let session = both.client().await;
        tokio::time::sleep_until(Instant::now() + Duration::from_micros(98_000 + round * 10)).await;
        match soon(session.request(Quick { n: 1 }).into_future()).await {
            Ok(1) => answered += 1,
            Err(RequestError::Disconnected { maybe_executed, .. }) => {
                *(if maybe_executed { &mut unknown } else { &mut unsent }) += 1;
            }
            Err(RequestError::Closed(_)) => unsent += 1,
            other => panic!("{other:?}"),
        }
    }
    let executed = lab.executed.load(Ordering::Relaxed);
    assert!(answered > 0 && unsent + unknown > 0, "{answered} {unknown} {unsent}");
    assert!((answered..=answered + unknown).contains(&executed), "{executed} {answered} {unknown}");
}

#[tokio::test(start_paused = true)]
async fn a_ping_measures_the_round_trip_and_not_the_handlers() {
    let lab = Lab::new();
    let both = Both::with(lab.clone(), quiet()).await;
    let session = both.client().await;
    let connection = session.connection();
    assert_eq!(connection.rtt(), None);
    let took = soon(connection.ping()).await.unwrap();
    assert!(took < millis(1), "{took:?}");
    let rtt = connection.rtt().unwrap();
    assert_eq!((rtt.latest(), rtt.min()), (took, took));
    session.close().await;
    assert!(soon(connection.ping()).await.is_err(), "it is over");
}

#[tokio::test(start_paused = true)]
async fn round_trips_are_those_of_the_link() {
    let (mut peer, session) = RawPeer::accept(quiet()).await;
    for (n, delay) in [(1, 80), (2, 160)] {
        let connection = session.connection().clone();
        let asked: Vec<_> = (0..3)
            .map(|_| {
                let connection = connection.clone();
                tokio::spawn(async move { connection.ping().await })
            })
            .collect();
        let ping = peer.frame().await.unwrap();
        assert_eq!(ping.kind, FrameKind::Ping);
        // One that was not asked for measures nothing.
        peer.send(&[frame(Head::plain(FrameKind::Pong), b"12345678")]).await;
        sleep(millis(delay)).await;
        peer.send(&[frame(Head::plain(FrameKind::Pong), &ping.payload)]).await;
        for asked in asked {
            let took = soon(asked).await.unwrap().unwrap();
            assert!((delay..delay + 3).contains(&(took.as_millis() as u64)), "{n}: {took:?}");
        }
    }
    let rtt = session.connection().rtt().unwrap();
    assert_eq!((rtt.min().as_millis(), rtt.latest().as_millis() / 10), (80, 16));
    assert_eq!(rtt.smoothed().as_millis() / 5, 18, "{rtt:?}");
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_a_ping_is_told_when_the_connection_ends() {
    let (peer, session) = RawPeer::accept(quiet()).await;
    let connection = session.connection();
    let asked = tokio::spawn(async move { connection.ping().await });
    tokio::task::yield_now().await;
    drop(peer);
    assert_eq!(soon(asked).await.unwrap().unwrap_err().code, CloseCode::Lost);
}

/// How often the drivers of one idle connection are polled within ten minutes.
async fn polls_of_an_idle_pair(options: &Options) -> (usize, usize) {
    let (ours, theirs) = memory::pair(1 << 16);
    let (client, server) = tokio::join!(
        connect(ours, Contracts::default(), &ClientSecurity::Plaintext, options),
        accept(theirs, Contracts::default(), &ServerSecurity::Plaintext, options)
    );
    let mut polls = Vec::new();
    let mut handles = Vec::new();
    for established in [client.unwrap(), server.unwrap()] {
        let (connection, driver) = Driver::new(established, Serving::from(Router::empty()), options);
        let count = Arc::new(AtomicUsize::new(0));
        let mut driver = Box::pin(driver);
        let counted = Arc::clone(&count);
        tokio::spawn(std::future::poll_fn(move |cx| {
            counted.fetch_add(1, Ordering::Relaxed);
            driver.as_mut().poll(cx)
        }));
        polls.push(count);
        handles.push(connection);
    }
    sleep(secs(600)).await;
    assert!(handles.iter().all(|connection| connection.close_reason().is_none()));
    (polls[0].load(Ordering::Relaxed), polls[1].load(Ordering::Relaxed))
}

/// Ten minutes are forty intervals. A side that pings wakes for the timer and for the answer, the other for the ping
/// and once to see that it need not do the same.
#[tokio::test(start_paused = true)]
async fn idle_connections_wake_twice_an_interval_and_without_keep_alive_never() {
    let (one, other) = polls_of_an_idle_pair(&Options::default()).await;
    assert!((40..=140).contains(&one) && (40..=140).contains(&other), "{one} {other}");
    let (one, other) = polls_of_an_idle_pair(&quiet()).await;
    assert!(one <= 6 && other <= 6, "{one} {other}");
}

#[tokio::test(start_paused = true)]
async fn absurd_times_neither_panic_nor_spin() {
    for time in [Duration::ZERO, Duration::from_nanos(1), millis(1 << 36), millis(u64::MAX), Duration::MAX] {
        let mut options = Options::default();
        options.keep_alive = Some(time);
        options.keep_alive_timeout = Duration::MAX;
        let (one, other) = polls_of_an_idle_pair(&options).await;
        // A tenth of a second is the shortest interval.
        assert!(one + other < 30_000, "{time:?}: {one} {other}");
        let mut options = quiet();
        (options.keep_alive_timeout, options.idle_timeout) = (time, Some(time));
        let server = server(Lab::new(), options).await;
        let link = Client::builder("").plaintext().options(quiet());
        let (ours, theirs) = memory::pair(1024);
        server.serve_link(theirs);
        let session = link.connect_over(ours).await.unwrap();
        sleep(secs(365 * 24 * 3600)).await;
        let is_short = time < millis(1);
        assert_eq!(session.connection().close_reason().is_some(), is_short, "{time:?}");
    }
}
