//! Nothing that is secret is ever printed: not in what is traced, not by `Debug` or `Display`, whatever goes wrong.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../support/mod.rs"]
mod support;

mod parts;
mod search;

use std::{
    fmt::Debug,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context as TaskContext, Poll},
    time::Duration,
};

use nalix_client::{Client, ClientBuilder, ConnectError, Session, SessionTicket};
use nalix_core::{
    controller::{Call, Reply},
    handshake::SessionRecord,
    link::{StreamLink, memory},
    record::{self, Key},
};
use nalix_server::{
    ClientKeys, Context, Identity, PublicKey, Server, ServerBuilder, ServerHandle, SessionId, packet,
    packet_controller,
    store::{MemoryStore, SessionStore, StoreFuture, Taken, TicketId},
};
use search::Secrets;
use support::{Recorder, until, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tower::{Layer, Service};

#[packet(opcode = 0x1001, reply = String, encrypt)]
struct LogIn {
    password: String,
}

#[packet(opcode = 0x1002)]
struct Whisper(String);

#[packet(opcode = 0x1003, reply = u32)]
struct Fail(String);

const PASSWORD: &str = "zebra quilt vortex jam";
const ANSWER: &str = "violet pumpkin ferry";
const WHISPER: &str = "marble otter waltz";
const KEPT: &str = "ada knits grey lace";

struct Vault;

#[packet_controller]
impl Vault {
    #[packet]
    fn log_in(&self, ctx: &Context, packet: LogIn) -> String {
        assert_eq!(packet.password, PASSWORD);
        if let Some(session) = ctx.resumption() {
            session.insert("kept", &KEPT.to_owned()).unwrap();
        }
        ANSWER.to_owned()
    }

    #[packet]
    fn whisper(&self, Whisper(text): Whisper) {
        assert_eq!(text, WHISPER);
    }

    #[packet]
    fn fail(&self, _: Fail) -> u32 {
        panic!("a handler fails")
    }
}

/// Prints what it sees, as many do.
#[derive(Debug, Clone)]
struct Printing<S> {
    inner: S,
    printed: Printed,
}

#[derive(Debug, Clone, Default)]
struct Printed(Arc<Mutex<Vec<String>>>);

impl Printed {
    fn add(&self, text: String) {
        self.0.lock().unwrap().push(text);
    }
}

impl<S> Layer<S> for Printed {
    type Service = Printing<S>;

    fn layer(&self, inner: S) -> Printing<S> {
        Printing { inner, printed: self.clone() }
    }
}

impl<S> Service<Call> for Printing<S>
where
    S: Service<Call, Response = Reply>,
    S::Future: Send + 'static,
{
    type Response = Reply;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Reply, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut TaskContext<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, call: Call) -> Self::Future {
        self.printed.add(format!("{call:?} {call:#?}"));
        let printed = self.printed.clone();
        let future = self.inner.call(call);
        Box::pin(async move {
            let reply = future.await;
            if let Ok(reply) = &reply {
                printed.add(format!("{reply:?} {reply:#?}"));
            }
            reply
        })
    }
}

/// Keeps a copy of every secret that goes in.
#[derive(Debug, Clone, Default)]
struct Watched {
    store: Arc<MemoryStore>,
    seen: Arc<Mutex<Vec<(TicketId, SessionRecord)>>>,
}

impl Watched {
    fn note(&self, ticket: TicketId, record: &SessionRecord) {
        self.seen.lock().unwrap().push((ticket, record.clone()));
    }
}

impl SessionStore for Watched {
    fn put(&self, ticket: TicketId, record: SessionRecord) -> StoreFuture<'_, ()> {
        self.note(ticket, &record);
        self.store.put(ticket, record)
    }

    fn get(&self, ticket: TicketId) -> StoreFuture<'_, Option<SessionRecord>> {
        self.store.get(ticket)
    }

    fn take(
        &self,
        ticket: TicketId,
        seen: &SessionRecord,
        next: (TicketId, SessionRecord),
    ) -> StoreFuture<'_, Taken> {
        self.note(next.0, &next.1);
        self.store.take(ticket, seen, next)
    }

    fn update(&self, ticket: TicketId, record: SessionRecord) -> StoreFuture<'_, bool> {
        self.note(ticket, &record);
        self.store.update(ticket, record)
    }

    fn revoke(&self, session: SessionId, lifetime: Duration) -> StoreFuture<'_, usize> {
        self.store.revoke(session, lifetime)
    }
}

fn words() -> Secrets {
    let mut secrets = Secrets::default();
    for (name, text) in [("password", PASSWORD), ("answer", ANSWER), ("whisper", WHISPER), ("kept", KEPT)] {
        secrets.add(name, text.as_bytes());
    }
    secrets
}

/// In every form that `Debug` has.
fn both<T: Debug + ?Sized>(value: &T) -> String {
    format!("{value:?} {value:#?} {value:x?} {value:#x?}")
}

async fn connect(server: &ServerHandle, client: ClientBuilder) -> Result<Session, ConnectError> {
    let (ours, theirs) = memory::pair(1 << 16);
    server.serve_link(theirs);
    within("the handshake", client.connect_over(ours)).await
}

fn client(key: PublicKey) -> ClientBuilder {
    Client::builder("memory").server_key(key)
}

struct Setting {
    server: ServerHandle,
    key: PublicKey,
    secrets: Secrets,
    out: Printed,
}

async fn start(store: &Watched, set: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Setting {
    let identity = Identity::generate().unwrap();
    let (key, mut secrets, out) = (identity.public_key(), words(), Printed::default());
    secrets.add_identity("the server's key", &identity);
    let builder =
        Server::builder().identity(identity).sessions(store.clone()).no_listener().controller(Vault);
    let builder = set(builder);
    out.add(both(&builder));
    let server = builder.layer(out.clone()).build().await.unwrap();
    out.add(both(&server));
    let server = server.handle();
    out.add(both(&server));
    Setting { server, key, secrets, out }
}

/// Whole sessions, with all that they trace and all that their parts print.
#[tokio::test(start_paused = true)]
async fn sessions_print_no_secret() {
    let recorder = Recorder::new();
    let _guard = tracing::subscriber::set_default(recorder.clone());
    let store = Watched::default();
    let Setting { server, key, mut secrets, out } = start(&store, |server| server).await;
    let me = Identity::generate().unwrap();
    secrets.add_identity("the client's key", &me);

    let mut ticket: Option<SessionTicket> = None;
    for round in 0..4 {
        let builder = match ticket.take() {
            Some(ticket) if round > 1 => client(key).resume(ticket),
            _ => client(key).identity(me.clone()),
        };
        out.add(both(&builder));
        let session = connect(&server, builder).await.unwrap();
        assert_eq!(session.is_resumed(), round > 1);
        let call = session.request(LogIn { password: PASSWORD.into() });
        out.add(both(&call));
        assert_eq!(call.await.unwrap(), ANSWER);
        session.send(&Whisper(WHISPER.into())).await.unwrap();
        out.add(format!("{:?}", session.request(Fail(PASSWORD.into())).await));
        let there = server.connections().remove(0);
        there.resumption().unwrap().saved().await;
        ticket = session.ticket();
        out.add(both(&session));
        out.add(both(&session.connection()));
        out.add(both(&there));
        out.add(both(there.resumption().unwrap()));
        out.add(both(&ticket));
        let ticket = ticket.as_ref().unwrap();
        secrets.add("a ticket's secret", ticket.secret.as_bytes());
        secrets.add("a ticket's name", ticket.id.as_bytes());
        out.add(both(&session.close().await));
        until("gone", || server.connection_count() == 0).await;
    }
    for (ticket, record) in store.seen.lock().unwrap().iter() {
        secrets.add("a ticket's name", ticket.as_bytes());
        secrets.add("a record's secret", record.secret.as_bytes());
        out.add(both(record));
        out.add(both(&record.data));
        out.add(both(ticket));
        out.add(both(&record.secret));
    }
    out.add(both(&*store.store));
    out.add(both(&me));
    check(&secrets, &recorder, &out, 20);
}

/// All the ways for a session not to come about, or to end badly.
#[tokio::test(start_paused = true)]
async fn failures_print_no_secret() {
    let recorder = Recorder::new();
    let _guard = tracing::subscriber::set_default(recorder.clone());
    let store = Watched::default();
    let good = Identity::generate().unwrap();
    let wanted = good.public_key();
    let keys = ClientKeys::accepted(move |key| *key == wanted);
    let Setting { server, key, mut secrets, out } = start(&store, |server| server.client_keys(keys)).await;
    let stranger = Identity::generate().unwrap();
    secrets.add_identity("the client's key", &good);
    secrets.add_identity("the stranger's key", &stranger);
    let fails = |error: ConnectError| out.add(format!("{error} {}", both(&error)));

    // The client's key is refused; there is none; the server's key is another.
    fails(connect(&server, client(key).identity(stranger.clone())).await.unwrap_err());
    fails(connect(&server, client(key)).await.unwrap_err());
    fails(connect(&server, client(stranger.public_key()).identity(good.clone())).await.unwrap_err());
    fails(connect(&server, Client::builder("").plaintext()).await.unwrap_err());
    fails(connect(&server, client(key).plaintext().identity(good.clone())).await.unwrap_err());

    // A ticket that is used up, one that nobody knows, one with another secret.
    let session = connect(&server, client(key).identity(good.clone())).await.unwrap();
    let used = session.ticket().unwrap().clone();
    session.close().await;
    let session = connect(&server, client(key).resume(used.clone())).await.unwrap();
    let mut forged = session.ticket().unwrap().clone();
    secrets.add("a ticket's secret", forged.secret.as_bytes());
    session.close().await;
    forged.secret = Key::new([0x5a; 32]);
    let mut unknown = used.clone();
    unknown.id = TicketId::generate().unwrap();
    for ticket in [used, forged, unknown] {
        secrets.add("a ticket's secret", ticket.secret.as_bytes());
        secrets.add("a ticket's name", ticket.id.as_bytes());
        fails(connect(&server, client(key).resume(ticket)).await.unwrap_err());
    }

    // A request whose record is changed on its way.
    let (mut client_end, theirs) = duplex(1 << 16);
    let (mut server_end, link) = duplex(1 << 16);
    server.serve_link(StreamLink::new(link));
    let connecting = tokio::spawn(client(key).identity(good.clone()).connect_over(StreamLink::new(theirs)));
    server_end.write_all(&take(&mut client_end).await).await.unwrap();
    client_end.write_all(&take(&mut server_end).await).await.unwrap();
    let session = connecting.await.unwrap().unwrap();
    server_end.write_all(&take(&mut client_end).await).await.unwrap();
    let call = tokio::spawn({
        let session = session.clone();
        async move { session.request(LogIn { password: PASSWORD.into() }).await }
    });
    let mut request = take(&mut client_end).await;
    request[10] ^= 1;
    server_end.write_all(&request).await.unwrap();
    client_end.write_all(&take(&mut server_end).await).await.unwrap();
    let error = within("the end", call).await.unwrap().unwrap_err();
    out.add(format!("{error} {}", both(&error)));
    out.add(both(&session));

    for (ticket, record) in store.seen.lock().unwrap().iter() {
        secrets.add("a ticket's name", ticket.as_bytes());
        secrets.add("a record's secret", record.secret.as_bytes());
    }
    check(&secrets, &recorder, &out, 10);
}

/// A whole record.
async fn take(from: &mut DuplexStream) -> Vec<u8> {
    let mut record = vec![0; record::HEADER];
    within("a header", from.read_exact(&mut record)).await.unwrap();
    let (_, len) = record::parse(*record.first_chunk().unwrap()).unwrap();
    record.resize(record::HEADER + len, 0);
    within("a body", from.read_exact(&mut record[record::HEADER..])).await.unwrap();
    record
}

/// Searches all that has been traced and printed, of which there must be at least so many lines.
fn check(secrets: &Secrets, recorder: &Recorder, out: &Printed, lines: usize) {
    let traced = recorder.lines();
    let printed = out.0.lock().unwrap();
    assert!(traced.len() + printed.len() >= lines, "{} lines, {} values", traced.len(), printed.len());
    let traced = traced.iter().flat_map(|line| line.spans.iter().chain([&line.text]));
    for text in traced.chain(&recorder.spans()).chain(printed.iter()) {
        assert_eq!(secrets.found_in(text), None, "{text}");
    }
}
