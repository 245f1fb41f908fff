//! A session's life: how it begins, what its handles do, how it ends.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use nalix_client::{
    Client, CloseCode, CloseReason, ConnectError, Connection, Context, RequestError, RouterError, SendError,
    Session, SessionState, State, link::memory, packet, packet_controller,
};
use nalix_server::{Server, ServerHandle};

#[packet(opcode = 0x1001, reply = u32)]
struct Double {
    n: u32,
}

#[packet(opcode = 0x1002, reply = ())]
struct Forever;

/// Makes the server call its client.
#[packet(opcode = 0x1003, reply = Result<u32, String>)]
struct AskBack {
    n: u32,
}

#[packet(opcode = 0x1004)]
struct Noted;

#[packet(opcode = 0x2001, reply = u32)]
struct Triple {
    n: u32,
}

#[packet(opcode = 0x2002, reply = String)]
struct Name;

struct Lab;

#[packet_controller]
impl Lab {
    // Concurrent, since a client's hook calls it while the server waits for that client.
    #[packet(concurrent)]
    fn double(&self, double: Double) -> u32 {
        double.n * 2
    }

    #[packet(concurrent)]
    async fn forever(&self, _: Forever) {
        std::future::pending::<()>().await;
    }

    #[packet]
    async fn ask_back(&self, ctx: &Context, ask: AskBack) -> Result<u32, String> {
        ctx.request(Triple { n: ask.n }).await.map_err(|error| error.to_string())
    }

    #[packet]
    fn noted(&self, _: Noted) {}
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn note(&self, event: impl Into<String>) {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(event.into());
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }
}

struct Triples(Log);

#[packet_controller]
impl Triples {
    #[packet]
    fn triple(&self, triple: Triple) -> u32 {
        triple.n * 3
    }

    #[connected]
    async fn hello(&self, ctx: &Context) {
        let doubled = ctx.request(Double { n: 4 }).await;
        self.0.note(format!("hello {doubled:?}"));
    }

    #[disconnected]
    fn bye(&self, _: &Context, why: &CloseReason) {
        self.0.note(format!("bye {}", why.code));
    }
}

struct Named;

#[packet_controller]
impl Named {
    #[packet]
    fn name(&self, State(name): State<String>, _: Name) -> String {
        (*name).clone()
    }
}

async fn server() -> ServerHandle {
    Server::builder().plaintext().no_listener().controller(Lab).build().await.unwrap().spawn().0
}

async fn connect(server: &ServerHandle) -> Session {
    let (ours, theirs) = memory::pair(4096);
    server.serve_link(theirs);
    Client::builder("").plaintext().connect_over(ours).await.unwrap()
}

fn server_end(server: &ServerHandle) -> Connection {
    server.connections().pop().unwrap()
}

/// Lets everything run that can, and looks again, until the condition holds.
async fn until(what: &str, condition: impl Fn() -> bool) {
    for _ in 0..100_000 {
        if condition() {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("never came true: {what}");
}

#[tokio::test(start_paused = true)]
async fn the_session_ends_with_its_last_clone_and_not_before() {
    let server = server().await;
    let session = connect(&server).await;
    let clone = session.clone();
    let connection = session.connection().clone();
    let call = session.request(Double { n: 3 });
    drop(session);
    assert_eq!(clone.request(Double { n: 2 }).await, Ok(4));
    assert_eq!(call.await, Ok(6));
    drop(clone);
    let reason = connection.closed().await;
    assert_eq!((reason.code, reason.by), (CloseCode::Normal, nalix_core::Side::Local));
    until("the server sees it", || server.connection_count() == 0).await;
    // A handle of the connection is not a session: it does not keep it open, and says that it is over.
    assert!(matches!(connection.request(Double { n: 1 }).await, Err(RequestError::Closed(_))));
}

#[tokio::test(start_paused = true)]
async fn closing_ends_calls_in_flight_and_refuses_further_ones() {
    let server = server().await;
    let session = connect(&server).await;
    assert_eq!(session.state(), SessionState::Connected);
    let calls: Vec<_> = (0..5)
        .map(|_| {
            let session = session.clone();
            tokio::spawn(async move { session.request(Forever).no_timeout().await })
        })
        .collect();
    until("they are in flight", || session.connection().calls_in_flight() == 5).await;
    let waiting = tokio::spawn({
        let session = session.clone();
        async move { session.closed().await }
    });
    tokio::task::yield_now().await;
    let reason = session.close().await;
    assert_eq!(reason.code, CloseCode::Normal);
    for call in calls {
        let error = call.await.unwrap().unwrap_err();
        assert!(
            matches!(&error, RequestError::Disconnected { reason: found, .. } if *found == reason),
            "{error:?}"
        );
    }
    assert_eq!(waiting.await.unwrap(), reason);
    assert_eq!(session.state(), SessionState::Closed(reason.clone()));
    assert_eq!(session.closed().await, reason, "also afterwards");
    assert_eq!(session.close().await, reason, "twice changes nothing");
    assert_eq!(session.request(Double { n: 1 }).await, Err(RequestError::Closed(reason.clone())));
    assert_eq!(session.send(&Noted).await, Err(SendError::Closed(reason.clone())));
    assert_eq!(session.try_send(&Noted), Err(SendError::Closed(reason)));
    until("the server sees it", || server.connection_count() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn the_reason_of_the_server_reaches_everybody_who_waits() {
    let server = server().await;
    let session = connect(&server).await;
    let call = tokio::spawn({
        let session = session.clone();
        async move { session.request(Forever).no_timeout().await }
    });
    until("it is in flight", || session.connection().calls_in_flight() == 1).await;
    server_end(&server).close_with(CloseReason::new(CloseCode::Other(777), "no more"));
    let reason = session.closed().await;
    assert_eq!((reason.code, &*reason.message), (CloseCode::Other(777), "no more"));
    let Err(RequestError::Disconnected { reason: found, maybe_executed }) = call.await.unwrap() else {
        panic!("not disconnected");
    };
    assert_eq!((found, maybe_executed), (reason, true));
}

#[tokio::test(start_paused = true)]
async fn a_controller_may_come_later_and_sees_the_connection_from_then_on() {
    let server = server().await;
    let session = connect(&server).await;
    let refused = session.request(AskBack { n: 5 }).await.unwrap().unwrap_err();
    assert!(refused.contains("Unimplemented"), "{refused}");
    let log = Log::default();
    session.serve(Triples(log.clone())).unwrap();
    assert_eq!(session.request(AskBack { n: 5 }).await, Ok(Ok(15)));
    assert_eq!(log.take(), ["hello Ok(8)"]);

    let twice = session.serve(Triples(log.clone())).unwrap_err();
    assert!(
        matches!(&twice, RouterError::Duplicate(_)) && twice.to_string().contains("Triples::triple"),
        "{twice}"
    );
    let lacking = session.serve(Named).unwrap_err();
    assert!(matches!(lacking, RouterError::MissingState { .. }), "{lacking}");
    assert_eq!(session.request(AskBack { n: 6 }).await, Ok(Ok(18)), "what was served is served on");

    session.close().await;
    until("the hook has run", || !log.0.lock().unwrap().is_empty()).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(log.take(), ["bye Normal"], "once");
    // Too late to see anything.
    session.serve(Named).unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_comes_after_the_end_sees_neither_beginning_nor_end() {
    let server = server().await;
    let session = connect(&server).await;
    let log = Log::default();
    server_end(&server).close();
    session.closed().await;
    session.serve(Triples(log.clone())).unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(log.take().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_client_may_serve_from_the_start_with_state() {
    let server = server().await;
    let (ours, theirs) = memory::pair(7);
    server.serve_link(theirs);
    let log = Log::default();
    let client = Client::builder("").plaintext().controller(Triples(log.clone())).controller(Named);
    let _session = client.state("Ada".to_owned()).connect_over(ours).await.unwrap();
    assert_eq!(server_end(&server).request(Name).await.as_deref(), Ok("Ada"));
    assert_eq!(server_end(&server).request(Triple { n: 1 }).await, Ok(3));
    assert_eq!(log.take(), ["hello Ok(8)"]);
}

#[tokio::test(start_paused = true)]
async fn what_a_client_lacks_is_said_before_anything_is_sent() {
    let (link, mut theirs) = tokio::io::duplex(1024);
    let link = nalix_client::link::StreamLink::new(link);
    let error = Client::builder("").connect_over(link).await.unwrap_err();
    assert!(
        matches!(error, ConnectError::Configuration(_)) && error.to_string().contains(".plaintext()"),
        "{error}"
    );
    let mut sent = Vec::new();
    tokio::io::AsyncReadExt::read_to_end(&mut theirs, &mut sent).await.unwrap();
    assert!(sent.is_empty());

    for client in [
        Client::builder("").plaintext().controller(Named),
        Client::builder("")
            .plaintext()
            .controller(Triples(Log::default()))
            .controller(Triples(Log::default())),
        Client::builder("").plaintext().controller(Named).state(String::new()).state(String::new()),
    ] {
        let (link, _theirs) = memory::pair(64);
        let error = client.connect_over(link).await.unwrap_err();
        assert!(matches!(error, ConnectError::Configuration(_)), "{error}");
        assert!(!error.is_retryable());
    }
    for bad in ["", "127.0.0.1:1", "http://localhost:1", "tcp://localhost", "tcp://localhost:0"] {
        let error = Client::builder(bad).plaintext().connect().await.unwrap_err();
        assert!(matches!(error, ConnectError::Address { .. }), "{bad}: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_connect_that_is_given_up_leaves_nothing_behind() {
    let server = server().await;
    for polls in 0..6 {
        let (ours, theirs) = memory::pair(16);
        let connecting = tokio::spawn(Client::builder("").plaintext().connect_over(ours));
        server.serve_link(theirs);
        for _ in 0..polls {
            tokio::task::yield_now().await;
        }
        connecting.abort();
        drop(connecting.await);
        until("the server is rid of it", || server.connection_count() == 0).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_says_nothing_is_a_timeout() {
    let (ours, _theirs) = memory::pair(1024);
    let begun = tokio::time::Instant::now();
    let error = Client::builder("").plaintext().connect_over(ours).await.unwrap_err();
    assert!(matches!(error, ConnectError::Timeout(time) if time == Duration::from_secs(10)), "{error}");
    assert!(error.is_retryable());
    // A second more to tell the server why.
    assert!((10..=11).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn values_are_kept_with_a_connection_by_type() {
    let server = server().await;
    let session = connect(&server).await;
    let connection = session.connection();
    assert!(connection.get::<u32>().is_none());
    assert!(connection.set(1_u32).is_none());
    assert!(connection.set("text").is_none());
    assert_eq!(connection.set(2_u32).as_deref(), Some(&1));
    assert_eq!(connection.clone().get::<u32>().as_deref(), Some(&2));
    assert_eq!(connection.get::<&str>().as_deref(), Some(&"text"));
    assert!(server_end(&server).get::<u32>().is_none(), "they do not travel");
    session.close().await;
    assert_eq!(connection.get::<u32>().as_deref(), Some(&2), "also when it is over");
    assert_eq!(connection.remove::<u32>().as_deref(), Some(&2));
    assert!(connection.remove::<u32>().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_session_shows_that_its_server_drains() {
    let server = server().await;
    let session = connect(&server).await;
    let call = tokio::spawn({
        let session = session.clone();
        async move { session.request(Forever).await }
    });
    until("it is in flight", || session.connection().calls_in_flight() == 1).await;
    server.connections()[0].drain(Duration::from_secs(5));
    until("the notice is there", || matches!(session.state(), SessionState::Draining { .. })).await;
    // What is refused now should go to another connection, not to this one again.
    let refused = session.request(Double { n: 1 }).await.unwrap_err();
    let RequestError::Status(status) = &refused else { panic!("{refused:?}") };
    assert_eq!(
        (status.code, status.advice),
        (nalix_client::Code::Unavailable, nalix_client::Advice::Reconnect)
    );
    assert!(refused.is_retryable());
    assert_eq!(session.closed().await.code, CloseCode::GoingAway);
    assert!(matches!(call.await.unwrap(), Err(RequestError::Disconnected { maybe_executed: true, .. })));
}
