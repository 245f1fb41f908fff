//! Links that break: everyone who waits is told why, whether its call may have run, and nothing goes on for nobody.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{
    future::{Future, IntoFuture},
    pin::pin,
    task::{Context as TaskContext, Poll, Waker},
    time::Duration,
};

use nalix_client::{Client, Session};
use nalix_core::{
    CloseCode, CloseReason, RequestError, SendError, Side,
    connection::{self, Driver, Serving},
    controller::Router,
    frame::{Control, FrameKind, Head},
    handshake::{ClientSecurity, Contracts},
    link::memory,
    wire::to_vec,
};
use nalix_server::{Context, Options, Server, packet, packet_controller};
use tokio::{io::AsyncWriteExt, net::TcpStream, task::JoinHandle, time::Instant};

use support::{Both, Live, RawPeer, frame, record, request, soon};

#[packet(opcode = 0x1001, reply = ())]
struct Never(Vec<u8>);

#[packet(opcode = 0x1002)]
struct Note(Vec<u8>);

/// Waits in order, on a task of its own.
#[packet(opcode = 0x1003, reply = ())]
struct NeverOnItsOwn;

/// Calls the client, which never answers.
#[packet(opcode = 0x1004, reply = ())]
struct AskBack;

/// Pushes to the client until that fails.
#[packet(opcode = 0x1005, reply = ())]
struct PushAlways;

#[derive(Default, Clone)]
struct Idle {
    live: Live,
    gone: Live,
}

#[packet_controller]
impl Idle {
    #[packet(concurrent)]
    async fn never(&self, _: Never) {
        let _guard = self.live.enter();
        tokio::time::sleep(Duration::from_secs(3_600)).await;
        std::future::pending::<()>().await;
    }

    #[packet(spawn)]
    async fn never_on_its_own(&self, _: NeverOnItsOwn) {
        let _guard = self.live.enter();
        std::future::pending::<()>().await;
    }

    #[packet(concurrent)]
    async fn ask_back(&self, ctx: &Context, _: AskBack) {
        let _guard = self.live.enter();
        drop(ctx.request(Never(vec![])).no_timeout().await);
    }

    #[packet(concurrent)]
    async fn push_always(&self, ctx: &Context, _: PushAlways) {
        let _guard = self.live.enter();
        while ctx.send(&Note(vec![1; 1_000])).await.is_ok() {}
    }

    #[disconnected]
    async fn gone(&self, _: &Context, why: &CloseReason) {
        assert_eq!(why.code, CloseCode::Lost);
        drop(self.gone.enter());
    }
}

type Call = JoinHandle<Result<(), RequestError>>;

fn call(session: &Session, bytes: usize) -> Call {
    tokio::spawn(session.request(Never(vec![1; bytes])).no_timeout().into_future())
}

/// Lets everybody run who can, which is so when the clock moves.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

/// Fifty calls that the server has, fifty that wait for a slot, and one-way packets that wait for room.
#[tokio::test(start_paused = true)]
async fn every_waiter_ends_with_the_same_cause() {
    for how in ["lost", "closed", "broken", "closed here"] {
        let mut options = Options::default();
        options.outbox = 2_000;
        let (mut peer, session) = RawPeer::accept_over(options, 1_000, 50).await;
        let in_flight: Vec<_> = (0..50).map(|_| call(&session, 1)).collect();
        for _ in 0..50 {
            assert_eq!(peer.frame().await.unwrap().kind, FrameKind::Request);
        }
        let queued: Vec<_> = (0..50).map(|_| call(&session, 1)).collect();
        let senders: Vec<_> = (0..50)
            .map(|_| {
                let session = session.clone();
                tokio::spawn(async move { session.send(&Note(vec![2; 100])).await })
            })
            .collect();
        settle().await;
        assert_eq!(session.connection().calls_in_flight(), 50);
        let start = Instant::now();
        let reason = CloseReason::new(CloseCode::Other(77), "that is it");
        match how {
            "closed" => {
                let goodbye = to_vec(&Control::Close(reason)).unwrap();
                peer.send(&[frame(Head::plain(FrameKind::Control), &goodbye)]).await;
            }
            "broken" => peer.write(&[0; 8]).await,
            "closed here" => session.connection().close_with(reason),
            _ => {}
        }
        if how == "lost" {
            drop(peer);
        }
        let reason = soon(session.closed()).await;
        let expected = match how {
            "lost" => (CloseCode::Lost, Side::Peer),
            "closed" => (CloseCode::Other(77), Side::Peer),
            "broken" => (CloseCode::ProtocolError, Side::Local),
            _ => (CloseCode::Other(77), Side::Local),
        };
        assert_eq!((reason.code, reason.by), expected, "{how}");
        assert!(start.elapsed() <= Duration::from_secs(1), "{how}");
        for call in in_flight {
            let error = soon(call).await.unwrap().unwrap_err();
            let lost = RequestError::Disconnected { maybe_executed: true, reason: reason.clone() };
            assert_eq!(error, lost, "{how}");
            assert!(!error.is_retryable());
        }
        for call in queued {
            match soon(call).await.unwrap().unwrap_err() {
                error @ RequestError::Closed(_) => assert!(error.is_retryable()),
                other => panic!("{how}: {other:?}"),
            }
        }
        let mut unsent = 0;
        for sender in senders {
            match soon(sender).await.unwrap() {
                Ok(()) => {}
                Err(SendError::Closed(_)) => unsent += 1,
                Err(other) => panic!("{how}: {other:?}"),
            }
        }
        assert!((15..=40).contains(&unsent), "{how}: {unsent} of 50 found no room");
        assert_eq!(session.connection().calls_in_flight(), 0);
        assert!(
            matches!(session.send(&Note(vec![])).await, Err(SendError::Closed(found)) if found == reason)
        );
    }
}

/// Of the calls in the outbox, exactly those may have run of which the link has taken at least a byte.
#[tokio::test(start_paused = true)]
async fn calls_that_no_byte_was_sent_of_are_known_not_to_have_run() {
    for capacity in [100, 101, 104, 215, 1_000] {
        let (peer, session) = RawPeer::accept_over(Options::default(), capacity, 1_000).await;
        let calls: Vec<_> = (0..20).map(|_| call(&session, 100)).collect();
        settle().await;
        drop(peer);
        // A record's header, then frames: tag, id, opcode, length, and the payload.
        let frame = 1 + 1 + 2 + 1 + 101;
        for (i, call) in calls.into_iter().enumerate() {
            match soon(call).await.unwrap() {
                Err(error @ RequestError::Disconnected { maybe_executed, .. }) => {
                    assert_eq!(maybe_executed, 4 + i * frame < capacity, "call {i} over {capacity} bytes");
                    assert_eq!(error.is_retryable(), !maybe_executed);
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn handlers_stop_when_their_client_vanishes() {
    let idle = Idle::default();
    let mut both = Both::new(idle.clone()).await;
    both.capacity = 5_000;
    let mut peer = RawPeer::connect(&both.server).await;
    let never = to_vec(&Never(vec![])).unwrap();
    let mut calls: Vec<_> = (0..50).map(|id| request(id, 0x1001, &never)).collect();
    // The first of these runs, the others wait for it.
    calls.extend((50..60).map(|id| request(id, 0x1003, b"")));
    calls.extend((60..70).map(|id| request(id, 0x1004, b"")));
    // The last one fills the outbox, behind which nothing is started.
    calls.push(request(70, 0x1005, b""));
    peer.send(&calls).await;
    idle.live.is(50 + 1 + 10 + 1).await;
    let end = both.server_end().await;
    let waiting = tokio::spawn(end.request(Never(vec![])).no_timeout().into_future());
    settle().await;
    let start = Instant::now();
    drop(peer);
    idle.live.is(0).await;
    assert!(start.elapsed() < Duration::from_millis(100), "{:?}", start.elapsed());
    let lost = soon(waiting).await.unwrap();
    assert!(matches!(lost, Err(RequestError::Closed(_))), "it waited for room: {lost:?}");
    both.server_is_empty().await;
    idle.gone.has_entered(1).await;
    assert_eq!((end.calls_in_flight(), idle.live.entered()), (0, 62));
}

/// The same when the client stops reading as well, so that the server only finds out when it reads.
#[tokio::test(start_paused = true)]
async fn a_client_that_vanishes_behind_a_full_outbox_is_noticed() {
    let idle = Idle::default();
    let mut options = Options::default();
    options.outbox = 3_000;
    let both = Both::with(idle.clone(), options).await;
    let mut peer = RawPeer::connect_over(&both.server, 700).await;
    peer.send(&[request(0, 0x1005, b""), request(1, 0x1001, &to_vec(&Never(vec![])).unwrap())]).await;
    idle.live.has_entered(1).await;
    settle().await;
    drop(peer);
    idle.live.is(0).await;
    both.server_is_empty().await;
}

/// Sockets that are reset, not closed: bytes of the server's lie unread in the client when it goes.
#[tokio::test]
async fn a_reset_is_a_loss_like_any_other() {
    let idle = Idle::default();
    let server = Server::builder().plaintext().tcp("127.0.0.1:0").controller(idle.clone());
    let server = server.build().await.unwrap();
    let address = server.local_addr();
    let (handle, _running) = server.spawn();
    for n in 1..=20 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let never = request(0, 0x1001, &to_vec(&Never(vec![])).unwrap());
        // In this order: the second fills the outbox, behind which nothing is started.
        let calls = record(&[never, request(1, 0x1005, b"")]);
        stream.write_all(&[RawPeer::hello(), calls].concat()).await.unwrap();
        idle.live.has_entered(n * 2).await;
        drop(stream);
        idle.live.is(0).await;
        idle.gone.has_entered(n).await;
    }
    let empty = async {
        while handle.connection_count() > 0 {
            tokio::task::yield_now().await;
        }
    };
    soon(empty).await;
}

/// A server that is gone, as its client sees it over a socket.
#[tokio::test]
async fn a_server_that_vanishes_ends_the_calls_of_its_clients() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let idle = Idle::default();
    let server = support::server(idle.clone(), Options::default()).await;
    let connecting =
        tokio::spawn(Client::builder(format!("tcp://{address}")).no_reconnect().plaintext().connect());
    let (stream, _) = listener.accept().await.unwrap();
    // The server is behind a proxy, which is what goes.
    let (mut near, far) = tokio::io::duplex(1 << 16);
    server.serve_link(nalix_core::link::StreamLink::new(far));
    let proxy = tokio::spawn(async move {
        let mut stream = stream;
        drop(tokio::io::copy_bidirectional(&mut stream, &mut near).await);
    });
    let session = connecting.await.unwrap().unwrap();
    let calls: Vec<_> = (0..100).map(|_| call(&session, 1)).collect();
    idle.live.is(100).await;
    proxy.abort();
    for call in calls {
        match soon(call).await.unwrap() {
            Err(RequestError::Disconnected { maybe_executed: true, .. }) => {}
            other => panic!("{other:?}"),
        }
    }
    idle.live.is(0).await;
}

/// Whoever drops a driver ends its connection, for everybody who waits on it.
#[tokio::test(start_paused = true)]
async fn a_dropped_driver_ends_everybody() {
    let idle = Idle::default();
    let both = Both::new(idle.clone()).await;
    let (ours, theirs) = memory::pair(1 << 16);
    both.server.serve_link(theirs);
    let options = Options::default();
    let established =
        connection::connect(ours, Contracts::default(), &ClientSecurity::Plaintext, &options).await.unwrap();
    let (connection, driver) = Driver::new(established, Serving::from(Router::empty()), &options);
    let mut driver = Box::pin(driver);
    let mut sent = pin!(connection.request(Never(vec![])).into_future());
    let mut unsent = pin!(connection.request(Never(vec![])).into_future());
    let mut cx = TaskContext::from_waker(Waker::noop());
    assert_eq!(sent.as_mut().poll(&mut cx), Poll::Pending);
    for _ in 0..3 {
        assert!(driver.as_mut().poll(&mut cx).is_pending());
    }
    assert_eq!(unsent.as_mut().poll(&mut cx), Poll::Pending);
    idle.live.is(1).await;
    drop(driver);
    let reason = soon(connection.closed()).await;
    assert_eq!((reason.code, reason.by), (CloseCode::Lost, Side::Local));
    for (call, maybe_executed) in [(sent, true), (unsent, false)] {
        let expected = RequestError::Disconnected { maybe_executed, reason: reason.clone() };
        assert_eq!(soon(call).await, Err(expected));
    }
    idle.live.is(0).await;
}

/// Callers, senders and those who close race each other on several threads: nobody is left behind.
#[test]
fn nobody_is_left_behind_when_a_connection_ends_between_threads() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    runtime.block_on(async {
        for round in 0..100u64 {
            let mut options = Options::default();
            (options.max_calls, options.outbox) = (3, 2_000);
            let racing = Racing::default();
            let mut both = Both::with(racing.clone(), options).await;
            (both.capacity, both.client_options.outbox) = (300, 500);
            let session = both.client().await;
            let theirs = both.server_end().await;
            let mut all = tokio::task::JoinSet::new();
            for i in 0..20 {
                let session = session.clone();
                all.spawn(async move {
                    loop {
                        let ended = match i % 2 {
                            0 => session.request(Never(vec![1; 50])).no_timeout().await.is_err(),
                            _ => session.send(&Note(vec![2; 50])).await.is_err(),
                        };
                        if ended {
                            break;
                        }
                    }
                });
            }
            for _ in 0..round {
                tokio::task::yield_now().await;
            }
            match round % 3 {
                0 => session.connection().close(),
                1 => theirs.close(),
                _ => {
                    session.connection().close();
                    theirs.close();
                }
            }
            while let Some(task) = soon(all.join_next()).await {
                task.unwrap();
            }
            soon(theirs.closed()).await;
            assert_eq!(soon(session.closed()).await.code, CloseCode::Normal);
            both.server_is_empty().await;
            racing.0.is(0).await;
            assert_eq!(session.connection().calls_in_flight(), 0);
        }
    });
}

/// Answers after a turn.
#[derive(Default, Clone)]
struct Racing(Live);

#[packet_controller]
impl Racing {
    #[packet(concurrent)]
    async fn never(&self, _: Never) {
        let _guard = self.0.enter();
        tokio::task::yield_now().await;
    }

    #[packet]
    async fn note(&self, _: Note) {
        let _guard = self.0.enter();
        tokio::task::yield_now().await;
    }
}
