//! Every option at zero, at its maximum and at absurd values: a defined outcome, and never a panic.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{sync::Arc, time::Duration};

use nalix_client::{Client, ConnectError, ReconnectOptions, Session};
use nalix_core::packet::NoError;
use nalix_server::{
    CloseCode, Code, Options, RequestError, Server, ServerHandle, Status, link::memory, packet,
    packet_controller,
};
use support::{Live, RawPeer, session, until, within};
use tokio::{sync::Semaphore, time::Instant};

#[packet(opcode = 0x1001, reply = ())]
struct Nothing;

#[packet(opcode = 0x1002, reply = Vec<u8>)]
struct Echo {
    bytes: Vec<u8>,
}

#[packet(opcode = 0x1003, reply = ())]
struct Hold;

#[packet(opcode = 0x1004)]
struct Noted {
    n: u32,
}

#[derive(Clone)]
struct Lab {
    running: Live,
    gate: Arc<Semaphore>,
    noted: Live,
}

#[packet_controller]
impl Lab {
    #[packet]
    fn nothing(&self, _: Nothing) {
        drop(self.noted.enter());
    }

    #[packet(concurrent)]
    async fn echo(&self, echo: Echo) -> Vec<u8> {
        tokio::task::yield_now().await;
        echo.bytes
    }

    #[packet(concurrent)]
    async fn hold(&self, _: Hold) -> Result<(), Status> {
        let _inside = self.running.enter();
        self.gate.acquire().await.map_err(|_| Status::internal("closed"))?.forget();
        Ok(())
    }

    #[packet]
    async fn noted(&self, noted: Noted) {
        tokio::task::yield_now().await;
        assert!(noted.n < 1_000);
        drop(self.noted.enter());
    }
}

async fn serve(options: Options) -> (ServerHandle, Lab) {
    let lab = Lab { running: Live::default(), gate: Arc::new(Semaphore::new(0)), noted: Live::default() };
    let builder = Server::builder().plaintext().no_listener().controller(lab.clone()).options(options);
    (builder.build().await.unwrap().spawn().0, lab)
}

async fn connect(server: &ServerHandle, options: Options) -> Result<Session, ConnectError> {
    let (ours, theirs) = memory::pair(1024);
    server.serve_link(theirs);
    within("the connection", Client::builder("").plaintext().options(options).connect_over(ours)).await
}

/// Whether the time was up: on whichever side that was found first.
fn is_late<T>(outcome: &Result<T, RequestError<NoError>>) -> bool {
    match outcome {
        Err(RequestError::Timeout) => true,
        Err(error) => error.code() == Some(Code::DeadlineExceeded),
        Ok(_) => false,
    }
}

const DAY: Duration = Duration::from_secs(24 * 3600);
const DURATIONS: [Duration; 5] = [
    Duration::ZERO,
    Duration::from_nanos(1),
    Duration::from_millis(1 << 36),
    Duration::from_millis(u64::MAX),
    Duration::MAX,
];

/// What a connection does in its life, with these options on both sides or on one.
async fn live(options: &Options, may_fail: bool) {
    for (ours, theirs) in
        [(options.clone(), options.clone()), (options.clone(), quiet()), (quiet(), options.clone())]
    {
        let (server, lab) = serve(theirs).await;
        let session = match connect(&server, ours).await {
            Ok(session) => session,
            Err(error) if may_fail => {
                assert!(matches!(error, ConnectError::Timeout(_) | ConnectError::Refused(_)), "{error}");
                continue;
            }
            Err(error) => panic!("{options:?}: {error}"),
        };
        let calls: Vec<_> = (0..50)
            .map(|n| {
                let session = session.clone();
                tokio::spawn(async move { session.request(Echo { bytes: vec![n; 200] }).await })
            })
            .collect();
        for (n, call) in (0..).zip(calls) {
            match within("a call", call).await.unwrap() {
                Ok(bytes) => assert_eq!(bytes, vec![n; 200]),
                Err(error) => assert!(may_fail, "{options:?}: {error}"),
            }
        }
        for n in 0..50 {
            match within("a packet", session.send(&Noted { n })).await {
                Ok(()) => {}
                Err(error) => assert!(may_fail, "{options:?}: {error}"),
            }
        }
        if !may_fail {
            until("all have come", || lab.noted.entered() == 50).await;
        }
        tokio::time::sleep(3 * 365 * DAY).await;
        within("the close", session.close()).await;
        until("it is gone", || server.connection_count() == 0).await;
    }
}

#[tokio::test(start_paused = true)]
async fn every_time_may_have_any_value() {
    for time in DURATIONS {
        // What is as short as this may well be over before anything has happened.
        let short = time < Duration::from_secs(1);
        let set: [fn(&mut Options, Duration); 5] = [
            |options, time| options.handshake_timeout = time,
            |options, time| options.close_timeout = time,
            |options, time| options.stall_timeout = time,
            |options, time| options.request_timeout = Some(time),
            |options, time| options.max_deadline = Some(time),
        ];
        for set in set {
            let mut options = quiet();
            set(&mut options, time);
            live(&options, short).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn every_number_may_have_any_value() {
    for number in [0, 1, 2, usize::MAX] {
        let set: [fn(&mut Options, usize); 3] = [
            |options, number| options.max_calls = number,
            |options, number| options.max_queued = number,
            |options, number| options.outbox = number,
        ];
        for set in set {
            let mut options = quiet();
            set(&mut options, number);
            live(&options, false).await;
        }
    }
    let mut options = quiet();
    options.max_message = usize::MAX;
    live(&options, false).await;
}

#[tokio::test(start_paused = true)]
async fn no_handshake_time_refuses_every_connection() {
    let mut none = Options::default();
    none.handshake_timeout = Duration::ZERO;
    let (server, _) = serve(none.clone()).await;
    let error = connect(&server, Options::default()).await.unwrap_err();
    assert!(
        matches!(&error, ConnectError::Refused(reason) if reason.code == CloseCode::HandshakeTimeout),
        "{error}"
    );
    let (server, _) = serve(Options::default()).await;
    assert!(matches!(connect(&server, none).await, Err(ConnectError::Timeout(Duration::ZERO))));
    until("nobody is there", || server.connection_count() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn messages_of_no_bytes_are_all_that_a_limit_of_zero_lets_through() {
    for (ours, theirs) in [(0, 1 << 20), (1 << 20, 0), (0, 0), (1, 1)] {
        let mut options = Options::default();
        (options.max_message, options.max_send) = (theirs, theirs);
        let (server, _) = serve(options.clone()).await;
        (options.max_message, options.max_send) = (ours, ours);
        let session = connect(&server, options).await.unwrap();
        let limit = ours.min(theirs);
        assert_eq!(session.connection().max_message(), limit);
        let large = session.request(Echo { bytes: vec![1] }).await;
        assert_eq!(large, Err(RequestError::TooLarge { limit }));
        // With a deadline and without, with an answer and with a status.
        assert_eq!(session.request(Nothing).await, Ok(()));
        assert_eq!(session.request(Nothing).no_timeout().await, Ok(()));
        assert!(is_late(&session.request(Hold).timeout(Duration::from_secs(1)).await));
        server.connections()[0]
            .close_with(nalix_server::CloseReason::new(CloseCode::LimitExceeded, "x".repeat(2_000)));
        let reason = session.closed().await;
        assert_eq!((reason.code, reason.message.len()), (CloseCode::LimitExceeded, 1_024));
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_without_any_time_left_never_runs() {
    let mut options = Options::default();
    options.max_deadline = Some(Duration::ZERO);
    let (server, lab) = serve(options).await;
    let session = session(&server).await;
    assert_eq!(session.request(Nothing).await.unwrap_err().code(), Some(Code::DeadlineExceeded));
    assert_eq!(session.request(Nothing).no_timeout().await.unwrap_err().code(), Some(Code::DeadlineExceeded));
    assert_eq!(session.request(Nothing).timeout(Duration::ZERO).await, Err(RequestError::Timeout));
    assert_eq!(lab.noted.entered(), 0);
    session.send(&Noted { n: 1 }).await.unwrap();
    until("one-way packets have no deadline", || lab.noted.entered() == 1).await;
}

#[tokio::test(start_paused = true)]
async fn any_time_may_be_allowed_for_a_request() {
    let (server, lab) = serve(quiet()).await;
    let session = quiet_session(&server).await;
    for time in DURATIONS {
        let outcome = session.request(Nothing).timeout(time).await;
        assert!(outcome.is_ok() || (time <= DURATIONS[1] && is_late(&outcome)), "{outcome:?}");
        if time > DURATIONS[1] {
            let held = tokio::spawn({
                let session = session.clone();
                async move { session.request(Hold).timeout(time).await }
            });
            until("it runs", || lab.running.count() == 1).await;
            tokio::time::sleep(2 * 365 * DAY).await;
            assert!(!held.is_finished());
            lab.gate.add_permits(1);
            assert_eq!(held.await.unwrap(), Ok(()));
        }
    }
    // By the runtime's clock, which has gone far ahead.
    let far = Instant::now().into_std() + 3 * 365 * DAY;
    assert_eq!(session.request(Nothing).deadline(far).await, Ok(()));
    let past = Instant::now().into_std().checked_sub(Duration::from_secs(1)).unwrap();
    assert_eq!(session.request(Nothing).deadline(past).await, Err(RequestError::Timeout));
}

#[tokio::test(start_paused = true)]
async fn the_longest_that_a_handler_may_run_is_kept_whatever_the_caller_allows() {
    let mut options = Options::default();
    options.max_deadline = Some(Duration::from_secs(5));
    let (server, lab) = serve(options).await;
    let session = session(&server).await;
    for call in [session.request(Hold).no_timeout(), session.request(Hold).timeout(Duration::MAX)] {
        let begun = Instant::now();
        assert_eq!(call.await.unwrap_err().code(), Some(Code::DeadlineExceeded));
        assert_eq!((begun.elapsed().as_secs(), lab.running.count()), (5, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_there_after_three_idle_years() {
    let (server, lab) = serve(quiet()).await;
    let session = quiet_session(&server).await;
    let held = tokio::spawn({
        let session = session.clone();
        async move { session.request(Hold).no_timeout().await }
    });
    until("it runs", || lab.running.count() == 1).await;
    tokio::time::advance(3 * 365 * DAY).await;
    assert_eq!(session.request(Echo { bytes: vec![1, 2, 3] }).await, Ok(vec![1, 2, 3]));
    tokio::time::sleep(3 * 365 * DAY).await;
    lab.gate.add_permits(1);
    assert_eq!(held.await.unwrap(), Ok(()));
    assert!(is_late(&session.request(Hold).timeout(Duration::from_secs(1)).await));
}

#[tokio::test(start_paused = true)]
async fn an_endless_close_time_waits_for_the_peer_to_have_read() {
    for time in [Duration::from_millis(u64::MAX), Duration::MAX] {
        let mut options = Options::default();
        options.close_timeout = time;
        let (server, _) = serve(options).await;
        let mut peer = RawPeer::connect(&server).await;
        until("it is open", || server.connection_count() == 1).await;
        server.connections()[0].close();
        tokio::time::sleep(DAY).await;
        assert_eq!(server.connection_count(), 1, "the peer has not closed its side");
        assert!(peer.frame().await.is_some());
        assert!(peer.frame().await.is_none());
        drop(peer);
        until("it is gone", || server.connection_count() == 0).await;
    }
}

#[tokio::test]
async fn no_time_to_connect_is_a_timeout() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("tcp://{}", listener.local_addr().unwrap());
    for time in [Duration::ZERO, Duration::from_nanos(1)] {
        let mut options = Options::default();
        options.handshake_timeout = Duration::from_millis(10);
        let client =
            Client::builder(&*address).no_reconnect().plaintext().options(options).connect_timeout(time);
        let error = within("the failure", client.connect()).await.unwrap_err();
        // Nobody answers in any case.
        assert!(error.is_retryable(), "{error}");
    }
}

/// Years of pings take a while even if time is paused.
fn quiet() -> Options {
    Options::default().keep_alive(None)
}

async fn quiet_session(server: &nalix_server::ServerHandle) -> nalix_client::Session {
    let (ours, theirs) = nalix_core::link::memory::pair(64 * 1024);
    server.serve_link(theirs);
    let client = nalix_client::Client::builder("").plaintext().options(quiet());
    client.connect_over(ours).await.expect("it connects")
}

/// Whatever is set about coming back, a session that is cut comes back or is over, and does not go round in circles.
#[tokio::test(start_paused = true)]
async fn options_of_reconnect_at_their_extremes_have_a_defined_outcome() {
    let defaults = ReconnectOptions::default;
    let zero = defaults().first_delay(Duration::ZERO).max_delay(Duration::ZERO).stable_after(Duration::ZERO);
    let long = defaults().stable_after(Duration::MAX).offline_age(Duration::MAX).max_delay(Duration::MAX);
    for (options, comes_back) in [
        (zero.offline_calls(0).offline_bytes(0).offline_age(Duration::ZERO).retry_budget(0), true),
        (long.offline_calls(usize::MAX).offline_bytes(usize::MAX).retry_budget(u32::MAX), true),
        (defaults().first_delay(Duration::MAX), false),
        (defaults().max_attempts(0), false),
        (defaults().max_attempts(1), true),
        (defaults().enabled(false), false),
    ] {
        let (server, _) = serve(Options::default().keep_alive(None)).await;
        let links = server.clone();
        let dial = move |_: &str| {
            let (ours, theirs) = memory::pair(1024);
            links.serve_link(theirs);
            std::future::ready(Ok(ours))
        };
        let builder = Client::builder("memory").plaintext().options(Options::default().keep_alive(None));
        let session = builder.dialer(dial).reconnect(options.clone()).connect().await.unwrap();
        let first = session.connection().id();
        server.connections()[0].abort();
        let came_back = within("it is back or over", async {
            while session.connection().id() == first {
                tokio::select! {
                    _ = session.closed() => return false,
                    () = tokio::time::sleep(Duration::from_millis(1)) => {}
                }
                // One with delays without end waits without end.
                if options.first_delay == Duration::MAX {
                    tokio::time::sleep(Duration::from_secs(10)).await;
                    return session.connection().id() != first;
                }
            }
            true
        });
        assert_eq!(came_back.await, comes_back, "{options:?}");
        if comes_back {
            assert_eq!(session.request(Nothing).await, Ok(()));
        }
        session.close().await;
    }
}
