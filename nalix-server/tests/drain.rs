//! The end of a server: everybody is told, what runs may finish, and it is over in bounded time.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{io, pin::pin, sync::Arc, time::Duration};

use bytes::Bytes;
use nalix_client::{Client, ConnectError};
use nalix_core::{
    connection::{Driver, Serving, connect},
    handshake::{self, ClientSecurity, Contracts},
    record::{self, RecordKind},
};
use nalix_server::{
    Advice, CloseCode, CloseReason, Code, Context, DrainReport, Options, RequestError, Router, Server,
    ServerBuilder, ServerHandle, Status, link::StreamLink, link::memory, packet, packet_controller,
};
use support::{Live, eventually, session, until, within};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::{Notify, Semaphore},
    task::JoinHandle,
    time::Instant,
};

#[packet(opcode = 0x1001, reply = u32)]
struct Quick {
    n: u32,
}

/// Takes as long as the test says.
#[packet(opcode = 0x1002, reply = u32)]
struct Hold;

#[packet(opcode = 0x1003, reply = Vec<u8>)]
struct Large;

#[derive(Clone)]
struct Lab {
    running: Live,
    gate: Arc<Semaphore>,
    gone: Live,
    endless_goodbye: bool,
}

impl Lab {
    fn new() -> Self {
        let gate = Arc::new(Semaphore::new(0));
        Self { running: Live::default(), gate, gone: Live::default(), endless_goodbye: false }
    }
}

#[packet_controller]
impl Lab {
    #[packet(concurrent)]
    fn quick(&self, quick: Quick) -> u32 {
        quick.n
    }

    #[packet(concurrent)]
    async fn hold(&self, _: Hold) -> Result<u32, Status> {
        let _inside = self.running.enter();
        self.gate.acquire().await.map_err(|_| Status::internal("closed"))?.forget();
        Ok(7)
    }

    #[packet(concurrent)]
    fn large(&self, _: Large) -> Vec<u8> {
        vec![1; 100_000]
    }

    #[disconnected]
    async fn bye(&self, _: &Context, _: &CloseReason) {
        drop(self.gone.enter());
        if self.endless_goodbye {
            std::future::pending::<()>().await;
        }
    }
}

fn builder(lab: &Lab) -> ServerBuilder {
    Server::builder().plaintext().controller(lab.clone()).drain_timeout(Duration::from_secs(2))
}

type Running = JoinHandle<DrainReport>;

/// A server without listeners that runs until the test says so.
async fn start(builder: ServerBuilder) -> (ServerHandle, Arc<Notify>, Running) {
    let server = builder.no_listener().build().await.unwrap();
    let handle = server.handle();
    let stop = Arc::new(Notify::new());
    let signal = Arc::clone(&stop);
    let running = tokio::spawn(async move { server.run_until(signal.notified()).await.unwrap() });
    (handle, stop, running)
}

async fn report(running: Running) -> (usize, usize) {
    let report = within("the drain", running).await.unwrap();
    (report.drained, report.forced)
}

#[tokio::test(start_paused = true)]
async fn an_idle_client_is_told_that_the_server_goes_away() {
    let (server, stop, running) = start(builder(&Lab::new())).await;
    let session = session(&server).await;
    let begun = Instant::now();
    stop.notify_one();
    assert_eq!(report(running).await, (1, 0));
    assert!(begun.elapsed() < Duration::from_millis(100), "{:?}", begun.elapsed());
    let reason = session.closed().await;
    assert_eq!((reason.code, reason.advice), (CloseCode::GoingAway, Advice::Reconnect));
    assert_eq!(server.connection_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_running_call_is_finished_and_a_new_one_is_refused() {
    let lab = Lab::new();
    let (server, stop, running) = start(builder(&lab)).await;
    let session = session(&server).await;
    let call = tokio::spawn({
        let session = session.clone();
        async move { session.request(Hold).await }
    });
    until("the call runs", || lab.running.count() == 1).await;
    stop.notify_one();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let error = session.request(Quick { n: 1 }).await.unwrap_err();
    assert_eq!(error.code(), Some(Code::Unavailable));
    assert!(error.is_retryable(), "it has not run");
    lab.gate.add_permits(1);
    assert_eq!(call.await.unwrap(), Ok(7));
    assert_eq!(report(running).await, (1, 0));
    assert_eq!(session.closed().await.code, CloseCode::GoingAway);
}

#[tokio::test(start_paused = true)]
async fn an_endless_handler_is_stopped_when_the_time_is_up() {
    let lab = Lab::new();
    let (server, stop, running) = start(builder(&lab)).await;
    let session = session(&server).await;
    let call = tokio::spawn({
        let session = session.clone();
        async move { session.request(Hold).no_timeout().await }
    });
    until("the call runs", || lab.running.count() == 1).await;
    let begun = Instant::now();
    stop.notify_one();
    assert_eq!(report(running).await, (0, 1));
    let took = begun.elapsed();
    assert!((2_000..2_500).contains(&took.as_millis()), "{took:?}");
    assert_eq!(lab.running.count(), 0, "it is really stopped");
    let error = call.await.unwrap().unwrap_err();
    assert!(matches!(&error, RequestError::Disconnected { maybe_executed: true, .. }), "{error:?}");
    assert_eq!(session.closed().await.code, CloseCode::GoingAway, "it is told, too");
    assert_eq!(lab.gone.entered(), 1);
}

/// What the server says to a peer that has not finished its handshake, or nothing.
async fn refusal(mut raw: tokio::io::DuplexStream) -> Option<CloseReason> {
    let mut bytes = Vec::new();
    raw.read_to_end(&mut bytes).await.ok()?;
    let (kind, len) = record::parse(*bytes.first_chunk()?).ok()?;
    assert_eq!((kind, len), (RecordKind::Abort, bytes.len() - record::HEADER));
    Some(handshake::read_abort(&Bytes::copy_from_slice(&bytes[record::HEADER..])))
}

#[tokio::test(start_paused = true)]
async fn peers_in_the_middle_of_the_handshake_do_not_hold_the_server_up() {
    let (server, stop, running) = start(builder(&Lab::new())).await;
    let mut raws = Vec::new();
    for prefix in [&b""[..], &[1], &[0, 200, 0, 0, b'n', b'a']] {
        let (mut raw, theirs) = tokio::io::duplex(1024);
        raw.write_all(prefix).await.unwrap();
        server.serve_link(StreamLink::new(theirs));
        raws.push(raw);
    }
    tokio::time::sleep(Duration::from_millis(1)).await;
    stop.notify_one();
    let peers: Vec<_> = raws.into_iter().map(|raw| tokio::spawn(refusal(raw))).collect();
    let begun = Instant::now();
    assert_eq!(report(running).await.1, 0);
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    let mut told = 0;
    for peer in peers {
        if let Some(reason) = peer.await.unwrap() {
            told += usize::from(reason.code == CloseCode::GoingAway);
        }
    }
    assert!(told >= 1, "at least the silent one is told");
}

#[tokio::test(start_paused = true)]
async fn a_silent_peer_that_neither_speaks_nor_closes_is_cut_off() {
    let mut options = Options::default();
    options.close_timeout = Duration::MAX;
    options.handshake_timeout = Duration::MAX;
    let (server, stop, running) = start(builder(&Lab::new()).options(options)).await;
    let (raw, theirs) = tokio::io::duplex(1);
    server.serve_link(StreamLink::new(theirs));
    tokio::time::sleep(Duration::from_millis(1)).await;
    let begun = Instant::now();
    stop.notify_one();
    assert_eq!(report(running).await, (0, 1));
    assert!(begun.elapsed() < Duration::from_millis(2_500), "{:?}", begun.elapsed());
    drop(raw);
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_does_not_read_is_cut_off() {
    let mut options = Options::default();
    options.close_timeout = Duration::from_secs(60);
    let (server, stop, running) = start(builder(&Lab::new()).options(options)).await;
    let (link, theirs) = memory::pair(64);
    server.serve_link(theirs);
    let established =
        connect(link, Contracts::default(), &ClientSecurity::Plaintext, &Options::default()).await.unwrap();
    let (deaf, mut driver) = Driver::new(established, Serving::from(Router::empty()), &Options::default());
    let call = tokio::spawn(async move { deaf.request(Large).await });
    tokio::select! {
        reason = &mut driver => panic!("{reason}"),
        // Long enough for the request, too short for the reply through 64 bytes at a time.
        () = async { for _ in 0..50 { tokio::task::yield_now().await } } => {}
    }
    let begun = Instant::now();
    stop.notify_one();
    assert_eq!(report(running).await, (0, 1));
    assert!(begun.elapsed() < Duration::from_millis(2_500), "{:?}", begun.elapsed());
    assert_eq!(server.connection_count(), 0);
    drop(driver);
    assert!(call.await.unwrap().is_err());
}

#[tokio::test(start_paused = true)]
async fn everything_at_once_is_counted_right() {
    let lab = Lab::new();
    let (server, stop, running) = start(builder(&lab)).await;
    let idle = session(&server).await;
    let (finishing, endless) = (session(&server).await, session(&server).await);
    let first = tokio::spawn(async move { finishing.request(Hold).no_timeout().await });
    until("it runs", || lab.running.count() == 1).await;
    let second = tokio::spawn(async move { endless.request(Hold).no_timeout().await });
    until("both run", || lab.running.count() == 2).await;
    let (raw, theirs) = tokio::io::duplex(1024);
    server.serve_link(StreamLink::new(theirs));
    tokio::time::sleep(Duration::from_millis(1)).await;
    let peer = tokio::spawn(refusal(raw));
    stop.notify_one();
    tokio::time::sleep(Duration::from_secs(1)).await;
    lab.gate.add_permits(1);
    // Idle, finishing and in the handshake; endless.
    assert_eq!(report(running).await, (3, 1));
    assert_eq!(first.await.unwrap(), Ok(7));
    assert!(second.await.unwrap().is_err());
    assert_eq!(idle.closed().await.code, CloseCode::GoingAway);
    assert_eq!(peer.await.unwrap().unwrap().code, CloseCode::GoingAway);
    assert_eq!((server.connection_count(), lab.gone.entered()), (0, 3));
}

#[tokio::test(start_paused = true)]
async fn zero_drain_time_cuts_off_at_once_and_still_says_goodbye() {
    let lab = Lab::new();
    let (server, stop, running) = start(builder(&lab).drain_timeout(Duration::ZERO)).await;
    let session = session(&server).await;
    let call = tokio::spawn({
        let session = session.clone();
        async move { session.request(Hold).no_timeout().await }
    });
    until("the call runs", || lab.running.count() == 1).await;
    let begun = Instant::now();
    stop.notify_one();
    assert_eq!(report(running).await, (0, 1));
    assert!(begun.elapsed() < Duration::from_millis(300), "{:?}", begun.elapsed());
    assert!(call.await.unwrap().is_err());
    assert_eq!(session.closed().await.code, CloseCode::GoingAway);
}

#[tokio::test(start_paused = true)]
async fn endless_drain_time_waits_for_the_last_call() {
    let lab = Lab::new();
    let mut options = Options::default();
    options.keep_alive = None;
    let builder = builder(&lab).options(options).drain_timeout(Duration::MAX);
    let (server, stop, running) = start(builder).await;
    let session = session(&server).await;
    let call = tokio::spawn(async move { session.request(Hold).no_timeout().await });
    until("the call runs", || lab.running.count() == 1).await;
    stop.notify_one();
    tokio::time::sleep(Duration::from_secs(30 * 24 * 3600)).await;
    assert!(!running.is_finished());
    lab.gate.add_permits(1);
    assert_eq!(call.await.unwrap(), Ok(7));
    assert_eq!(running.await.unwrap().drained, 1);
}

#[tokio::test(start_paused = true)]
async fn a_goodbye_hook_that_never_ends_does_not_hold_the_server_up() {
    let mut lab = Lab::new();
    lab.endless_goodbye = true;
    let (server, stop, running) = start(builder(&lab)).await;
    let session = session(&server).await;
    let begun = Instant::now();
    stop.notify_one();
    assert_eq!(report(running).await, (0, 1));
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    assert_eq!(session.closed().await.code, CloseCode::GoingAway);
}

#[tokio::test(start_paused = true)]
async fn shutdown_before_it_runs_and_twice_and_after_the_end_changes_nothing() {
    let server = builder(&Lab::new()).no_listener().build().await.unwrap();
    let handle = server.handle();
    handle.shutdown();
    handle.shutdown();
    let report = within("the drain", server.run()).await.unwrap();
    assert_eq!((report.drained, report.forced), (0, 0));
    handle.shutdown();

    let (ours, theirs) = memory::pair(1024);
    handle.serve_link(theirs);
    let refused = Client::builder("").plaintext().connect_over(ours).await.unwrap_err();
    assert!(
        matches!(&refused, ConnectError::Refused(reason) if reason.code == CloseCode::GoingAway),
        "{refused}"
    );
    assert!(refused.is_retryable());
}

#[tokio::test]
async fn clients_that_reconnect_in_a_loop_do_not_keep_the_server_alive_and_its_port_is_free() {
    let server = builder(&Lab::new()).tcp("127.0.0.1:0").build().await.unwrap();
    let address = server.local_addr();
    let (handle, running) = server.spawn();
    let looping = tokio::spawn(async move {
        let mut rounds = 0_u32;
        loop {
            match Client::builder(format!("tcp://{address}")).no_reconnect().plaintext().connect().await {
                Ok(session) => {
                    rounds += 1;
                    drop(session.request(Quick { n: 1 }).await);
                }
                Err(ConnectError::Dial { source: error, .. })
                    if error.kind() == io::ErrorKind::ConnectionRefused =>
                {
                    return rounds;
                }
                Err(_) => {}
            }
        }
    });
    eventually("a client is there", || handle.connection_count() > 0).await;
    handle.shutdown();
    within("the drain", running).await.unwrap().unwrap();
    assert!(within("refusal", looping).await.unwrap() > 0);
    let again = builder(&Lab::new()).tcp(address.to_string()).build().await.unwrap();
    assert_eq!(again.local_addr(), address);
}

#[tokio::test]
async fn a_server_that_is_dropped_before_it_ran_frees_its_port() {
    let server = builder(&Lab::new()).tcp("127.0.0.1:0").build().await.unwrap();
    let address = server.local_addr();
    let early = tokio::net::TcpStream::connect(address).await.unwrap();
    drop(server);
    let connecting = Client::builder(format!("tcp://{address}")).no_reconnect().plaintext().connect();
    assert!(within("the refusal", connecting).await.is_err());
    drop(early);
    let again = builder(&Lab::new()).tcp(address.to_string()).build().await;
    assert!(again.is_ok());
}

#[tokio::test]
async fn a_dropped_run_stops_accepting_and_leaves_open_connections_alone() {
    let server = builder(&Lab::new()).tcp("127.0.0.1:0").build().await.unwrap();
    let (address, handle) = (server.local_addr(), server.handle());
    let session = {
        let mut run = pin!(server.run());
        let connecting = async {
            let session =
                Client::builder(format!("tcp://{address}")).no_reconnect().plaintext().connect().await;
            eventually("it is open", || handle.connection_count() == 1).await;
            session
        };
        tokio::select! {
            _ = &mut run => panic!("nobody has stopped it"),
            session = connecting => session.unwrap(),
        }
    };
    let again = async {
        loop {
            match builder(&Lab::new()).tcp(address.to_string()).build().await {
                Ok(again) => return again,
                Err(error) => assert!(error.is_retryable(), "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    drop(within("the port is free", again).await);
    assert_eq!(session.request(Quick { n: 5 }).await, Ok(5));
    assert_eq!(handle.connection_count(), 1);
    session.close().await;
    eventually("it is gone", || handle.connection_count() == 0).await;
}
