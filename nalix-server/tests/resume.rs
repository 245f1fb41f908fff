//! Sessions that are resumed: once, by their client alone, with what the server keeps of them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use nalix_client::{Client, ClientBuilder, ConnectError, RequestError, Session, SessionTicket};
use nalix_core::{
    CloseCode, Connection,
    connection::{ConnectError as Refusal, EarlyRequest, connect_early},
    handshake::{ClientSecurity, Contracts, Pinned},
    link::memory,
    record::{self, Key, RecordKind},
};
use nalix_server::{
    ClientKeys, Context, Identity, Options, PublicKey, Server, ServerBuilder, ServerHandle, Status, packet,
    packet_controller,
    store::{MemoryStore, SessionRecord, SessionStore, StoreError, StoreFuture, Taken, TicketId},
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

use support::soon;

#[packet(opcode = 0x1001, reply = ())]
struct Remember(u32);

#[packet(opcode = 0x1002, reply = Option<u32>)]
struct Recall;

#[packet(opcode = 0x1003, reply = u32)]
struct Count;

#[packet(opcode = 0x1004, reply = String)]
struct SessionName;

#[packet(opcode = 0x1005, reply = ())]
struct Rare;

#[derive(Clone, Default)]
struct Game {
    counted: Arc<AtomicU32>,
}

#[packet_controller]
impl Game {
    #[packet]
    async fn remember(&self, ctx: &Context, Remember(n): Remember) -> Result<(), Status> {
        let session = ctx.resumption().ok_or(Status::failed_precondition("no session is kept"))?;
        session.insert("n", &n).map_err(|error| Status::internal(error.to_string()))?;
        session.saved().await;
        Ok(())
    }

    #[packet]
    fn recall(&self, ctx: &Context, _: Recall) -> Option<u32> {
        ctx.resumption()?.get("n").unwrap()
    }

    #[packet]
    fn count(&self, _: Count) -> u32 {
        self.counted.fetch_add(1, SeqCst) + 1
    }

    #[packet(rate = "2/h")]
    fn rare(&self, _: Rare) {}

    #[packet]
    fn session_name(&self, ctx: &Context, _: SessionName) -> String {
        ctx.resumption().map(|session| session.session_id().to_string()).unwrap_or_default()
    }
}

/// A server with sessions whose store's clock can be moved.
struct Resumable {
    server: ServerHandle,
    key: PublicKey,
    game: Game,
    later: Arc<Mutex<Duration>>,
}

impl Resumable {
    async fn new() -> Self {
        Self::with(|server| server).await
    }

    async fn with(set: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Self {
        let later = Arc::new(Mutex::new(Duration::ZERO));
        let clock = Arc::clone(&later);
        let store = MemoryStore::new().monotonic_clock(move || Instant::now() + *clock.lock().unwrap());
        let game = Game::default();
        let identity = Identity::generate().unwrap();
        let key = identity.public_key();
        let builder =
            Server::builder().identity(identity).sessions(store).no_listener().controller(game.clone());
        let server = set(builder).build().await.unwrap().handle();
        Self { server, key, game, later }
    }

    fn client(&self) -> ClientBuilder {
        Client::builder("memory").server_key(self.key)
    }

    async fn connect(&self, client: ClientBuilder) -> Result<Session, ConnectError> {
        let (ours, theirs) = memory::pair(1 << 16);
        self.server.serve_link(theirs);
        soon(client.connect_over(ours)).await
    }

    async fn resume(&self, ticket: &SessionTicket) -> Result<Session, ConnectError> {
        self.connect(self.client().resume(ticket.clone())).await
    }

    /// A session that is over, and its ticket.
    async fn left(&self) -> SessionTicket {
        let session = self.connect(self.client()).await.unwrap();
        session.request(Remember(7)).await.unwrap();
        let ticket = session.ticket().unwrap().clone();
        session.close().await;
        ticket
    }
}

fn is_refused(result: &Result<Session, ConnectError>) -> bool {
    matches!(result, Err(ConnectError::Refused(reason)) if reason.code == CloseCode::TicketRefused)
}

#[tokio::test]
async fn a_resumed_session_is_the_same_with_what_was_kept() {
    let both = Resumable::new().await;
    let me = Identity::generate().unwrap();
    let first = both.connect(both.client().identity(me.clone())).await.unwrap();
    let name = first.request(SessionName).await.unwrap();
    first.request(Remember(42)).await.unwrap();
    let mut ticket = first.ticket().unwrap().clone();
    // Not only once, and also while the earlier connection is still there.
    for _ in 0..3 {
        let next = both.resume(&ticket).await.unwrap();
        assert!(next.is_resumed() && !first.is_resumed());
        assert_eq!(next.request(SessionName).await.unwrap(), name);
        assert_eq!(next.request(Recall).await.unwrap(), Some(42));
        let ends: Vec<Connection> = both.server.connections();
        assert!(ends.iter().all(|end| end.peer_key() == Some(&me.public_key())), "{ends:?}");
        let fresh = next.ticket().unwrap().clone();
        assert_ne!(fresh, ticket);
        ticket = fresh;
    }
    // A ticket survives being put away.
    let ticket = SessionTicket::from_bytes(&ticket.to_bytes()).unwrap();
    assert_eq!(both.resume(&ticket).await.unwrap().request(Recall).await.unwrap(), Some(42));

    let other = both.connect(both.client()).await.unwrap();
    assert_ne!(other.request(SessionName).await.unwrap(), name);
    assert_eq!(other.request(Recall).await.unwrap(), None);
}

#[tokio::test]
async fn a_rate_for_each_session_holds_over_its_connections() {
    let both = Resumable::new().await;
    let first = both.connect(both.client()).await.unwrap();
    first.request(Rare).await.unwrap();
    first.request(Rare).await.unwrap();
    let resumed = both.resume(&first.ticket().unwrap()).await.unwrap();
    assert!(resumed.request(Rare).await.is_err(), "it has come back to an empty bucket");
    let other = both.connect(both.client()).await.unwrap();
    other.request(Rare).await.unwrap();
}

#[tokio::test]
async fn a_ticket_can_be_used_once() {
    let both = Resumable::new().await;
    let ticket = both.left().await;
    let resumed = both.resume(&ticket).await.unwrap();
    assert_eq!(resumed.request(Recall).await.unwrap(), Some(7));
    for _ in 0..3 {
        assert!(is_refused(&both.resume(&ticket).await));
    }
    assert_eq!(resumed.request(Recall).await.unwrap(), Some(7), "the session of the first has suffered");
    assert!(both.resume(&resumed.ticket().unwrap()).await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_a_thousand_that_try_one_ticket_at_once_one_wins() {
    let both = Arc::new(
        Resumable::with(|server| server.max_handshakes(2_000).max_handshakes_per_address(2_000)).await,
    );
    let ticket = both.left().await;
    let tries: Vec<_> = (0..1_000)
        .map(|_| {
            let (both, ticket) = (Arc::clone(&both), ticket.clone());
            tokio::spawn(async move {
                let (ours, theirs) = memory::pair(1 << 12);
                both.server.serve_link(theirs);
                both.client().resume(ticket).connect_over(ours).await
            })
        })
        .collect();
    let mut winners = Vec::new();
    for tried in tries {
        match tried.await.unwrap() {
            Ok(session) => winners.push(session),
            refused => assert!(is_refused(&refused), "{refused:?}"),
        }
    }
    assert_eq!(winners.len(), 1);
    assert_eq!(winners[0].request(Recall).await.unwrap(), Some(7));
}

#[tokio::test]
async fn whoever_cannot_prove_the_secret_leaves_the_ticket_as_it_was() {
    let both = Resumable::new().await;
    for attempts in [1, 3, 1_000] {
        let ticket = both.left().await;
        let mut forged = ticket.clone();
        forged.secret = Key::new([7; Key::LEN]);
        for _ in 0..attempts {
            let error = both.resume(&forged).await.unwrap_err();
            let ConnectError::Refused(reason) = &error else { panic!("{error:?}") };
            assert_eq!(reason.code, CloseCode::HandshakeFailed);
        }
        let resumed = both.resume(&ticket).await.unwrap();
        assert_eq!(resumed.request(Recall).await.unwrap(), Some(7));
    }
}

#[tokio::test]
async fn unknown_used_expired_and_revoked_tickets_get_one_answer() {
    let both = Resumable::new().await;
    let mut unknown = both.left().await;
    unknown.id = TicketId::generate().unwrap();
    let used = both.left().await;
    both.resume(&used).await.unwrap();

    let session = both.connect(both.client()).await.unwrap();
    let name = session.request(SessionName).await.unwrap();
    let revoked = session.ticket().unwrap().clone();
    assert_eq!(both.server.revoke(name.parse().unwrap()).await.unwrap(), 1);
    assert_eq!(both.server.revoke(name.parse().unwrap()).await.unwrap(), 0);
    // A write to a session that was revoked does not bring it back.
    session.request(Remember(9)).await.unwrap();

    let mut expired = both.left().await;
    expired.expires += Duration::from_secs(24 * 60 * 60);
    let mut answers = Vec::new();
    for ticket in [unknown, used, revoked] {
        answers.push(both.resume(&ticket).await.unwrap_err().to_string());
    }
    *both.later.lock().unwrap() = Duration::from_secs(2 * 60 * 60);
    answers.push(both.resume(&expired).await.unwrap_err().to_string());
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
    assert!(answers[0].contains("TicketRefused"), "{answers:?}");
}

#[tokio::test]
async fn without_a_store_there_are_no_tickets() {
    let resumable = Resumable::new().await;
    let ticket = resumable.left().await;
    for set in [(|server| server) as fn(ServerBuilder) -> ServerBuilder, |server| {
        server.sessions(MemoryStore::new()).ticket_lifetime(Duration::from_millis(999))
    }] {
        let identity = Identity::generate().unwrap();
        let key = identity.public_key();
        let server = Server::builder().identity(identity).no_listener().controller(Game::default());
        let server = set(server).build().await.unwrap().handle();
        let (ours, theirs) = memory::pair(1 << 16);
        server.serve_link(theirs);
        let session = Client::builder("").server_key(key).connect_over(ours).await.unwrap();
        assert!(session.ticket().is_none());
        assert_eq!(session.request(SessionName).await.unwrap(), "");

        let mut ticket = ticket.clone();
        ticket.server_key = key;
        let (ours, theirs) = memory::pair(1 << 16);
        server.serve_link(theirs);
        assert!(is_refused(&Client::builder("").resume(ticket).connect_over(ours).await));
    }
}

#[tokio::test]
async fn a_client_whose_key_is_not_accepted_any_more_cannot_resume() {
    let banned = Arc::new(Mutex::new(None::<PublicKey>));
    let bans = Arc::clone(&banned);
    let keys = ClientKeys::accepted(move |key| *bans.lock().unwrap() != Some(*key));
    let both = Resumable::with(|server| server.client_keys(keys)).await;
    let me = Identity::generate().unwrap();
    let session = both.connect(both.client().identity(me.clone())).await.unwrap();
    let ticket = session.ticket().unwrap().clone();
    *banned.lock().unwrap() = Some(me.public_key());
    let error = both.resume(&ticket).await.unwrap_err();
    assert!(
        matches!(&error, ConnectError::Refused(reason) if reason.code == CloseCode::KeyRefused),
        "{error:?}"
    );
}

/// Over TCP a refused ticket is followed by a full handshake, without the caller noticing more than a new session.
#[tokio::test]
async fn a_client_whose_ticket_is_refused_starts_anew() {
    let identity = Identity::generate().unwrap();
    let key = identity.public_key();
    let game = Game::default();
    let server = Server::builder()
        .identity(identity)
        .sessions(MemoryStore::new())
        .tcp("127.0.0.1:0")
        .controller(game.clone())
        .build()
        .await
        .unwrap();
    let (address, handle) = (format!("tcp://{}", server.local_addr()), server.handle());
    let running = tokio::spawn(server.run());
    let client = || Client::builder(address.clone()).no_reconnect().server_key(key);

    let first = client().connect().await.unwrap();
    let ticket = first.ticket().unwrap().clone();
    let second = client().resume(ticket.clone()).connect().await.unwrap();
    assert!(second.is_resumed());
    let third = client().resume(ticket.clone()).connect().await.unwrap();
    assert!(!third.is_resumed() && third.ticket().is_some());

    // The first request goes along with the hello if the session is resumed...
    let (fourth, counted) =
        client().resume(third.ticket().unwrap().clone()).connect_with(Count).await.unwrap();
    assert!(fourth.is_resumed());
    assert_eq!(counted.unwrap(), 1);
    // ... and behind the handshake if there is no ticket; if the ticket is refused nobody can say what became of it.
    let (fresh, counted) = client().connect_with(Count).await.unwrap();
    assert!(!fresh.is_resumed());
    assert_eq!(counted.unwrap(), 2);
    let (fresh, counted) = client().resume(ticket).connect_with(Count).await.unwrap();
    assert!(matches!(counted, Err(RequestError::Disconnected { maybe_executed: true, .. })), "{counted:?}");
    assert_eq!(game.counted.load(SeqCst), 2);
    assert_eq!(fresh.request(Count).await.unwrap(), 3);

    handle.shutdown();
    running.await.unwrap().unwrap();
}

/// Counted in flights, not timed: the server has said everything before it has heard anything but the first record.
#[tokio::test(start_paused = true)]
async fn a_resumed_clients_first_call_is_answered_after_one_round_trip() {
    let both = Resumable::new().await;
    let ticket = both.left().await;
    let early = EarlyRequest::new(&Count, 1 << 20, Some(Duration::from_secs(5))).unwrap();
    let mut pinned = Pinned::new(both.key);
    pinned.ticket = Some(ticket);
    let security = ClientSecurity::Secured(pinned);

    // The client's whole first flight, and nothing else, reaches the server.
    let ((ours, mut relay_ours), (mut relay_theirs, theirs)) = (duplex(1 << 16), duplex(1 << 16));
    both.server.serve_link(nalix_core::link::StreamLink::new(theirs));
    let options = Options::default();
    let connecting = tokio::spawn(async move {
        let link = nalix_core::link::StreamLink::new(ours);
        let established =
            connect_early(link, Contracts::default(), &security, early.frames(), &options).await?;
        assert!(established.early_sent() && established.is_resumed());
        let router = nalix_core::controller::Router::empty();
        let serving = nalix_core::connection::Serving::from(router);
        let (connection, driver) = nalix_core::connection::Driver::new(established, serving, &options);
        let answer = early.on(&connection).unwrap();
        tokio::spawn(driver);
        Ok::<_, Refusal>(answer.await.unwrap())
    });
    let hello = one_record(&mut relay_ours).await;
    relay_theirs.write_all(&hello).await.unwrap();
    // The server answers with its part of the handshake and with a sealed record, which holds the reply.
    let reply = one_record(&mut relay_theirs).await;
    let sealed = one_record(&mut relay_theirs).await;
    let kind = |bytes: &[u8]| record::parse(*bytes.first_chunk().unwrap()).unwrap().0;
    assert_eq!(
        [kind(&hello), kind(&reply), kind(&sealed)],
        [RecordKind::Hello, RecordKind::HelloReply, RecordKind::Sealed]
    );
    assert_eq!(both.game.counted.load(SeqCst), 1);
    relay_ours.write_all(&[reply, sealed].concat()).await.unwrap();
    assert_eq!(soon(connecting).await.unwrap().unwrap(), 1);
}

async fn one_record(stream: &mut tokio::io::DuplexStream) -> Vec<u8> {
    let mut bytes = vec![0; record::HEADER];
    soon(stream.read_exact(&mut bytes)).await.unwrap();
    let (_, len) = record::parse(*bytes.first_chunk().unwrap()).unwrap();
    bytes.resize(record::HEADER + len, 0);
    soon(stream.read_exact(&mut bytes[record::HEADER..])).await.unwrap();
    bytes
}

/// The recorded first flight of a resumption, sent again, runs nothing: the ticket is gone.
#[tokio::test(start_paused = true)]
async fn a_recorded_resumption_does_not_run_its_request_again() {
    let both = Resumable::new().await;
    let ticket = both.left().await;
    let early = EarlyRequest::new(&Count, 1 << 20, None).unwrap();
    let mut pinned = Pinned::new(both.key);
    pinned.ticket = Some(ticket);
    let security = ClientSecurity::Secured(pinned);
    let (ours, mut relay) = duplex(1 << 16);
    let connecting = tokio::spawn(async move {
        let link = nalix_core::link::StreamLink::new(ours);
        drop(connect_early(link, Contracts::default(), &security, early.frames(), &Options::default()).await);
    });
    let hello = one_record(&mut relay).await;
    let mut kinds = Vec::new();
    for _ in 0..10 {
        let (mut replay, theirs) = duplex(1 << 16);
        both.server.serve_link(nalix_core::link::StreamLink::new(theirs));
        replay.write_all(&hello).await.unwrap();
        let answer = one_record(&mut replay).await;
        kinds.push(record::parse(*answer.first_chunk().unwrap()).unwrap().0);
        if kinds.len() == 1 {
            one_record(&mut replay).await;
        }
    }
    assert_eq!(kinds[0], RecordKind::HelloReply);
    assert!(kinds[1..].iter().all(|kind| *kind == RecordKind::Abort), "{kinds:?}");
    assert_eq!(both.game.counted.load(SeqCst), 1);
    drop(relay);
    connecting.await.unwrap();
}

/// A store that cannot be reached.
struct Broken;

impl SessionStore for Broken {
    fn put(&self, _: TicketId, _: SessionRecord) -> StoreFuture<'_, ()> {
        StoreFuture::ready(Err(StoreError::new("unreachable")))
    }

    fn get(&self, _: TicketId) -> StoreFuture<'_, Option<SessionRecord>> {
        StoreFuture::ready(Err(StoreError::new("unreachable")))
    }

    fn take(&self, _: TicketId, _: &SessionRecord, _: (TicketId, SessionRecord)) -> StoreFuture<'_, Taken> {
        StoreFuture::ready(Err(StoreError::new("unreachable")))
    }

    fn update(&self, _: TicketId, _: SessionRecord) -> StoreFuture<'_, bool> {
        StoreFuture::ready(Err(StoreError::new("unreachable")))
    }

    fn revoke(&self, _: nalix_server::SessionId, _: Duration) -> StoreFuture<'_, usize> {
        StoreFuture::ready(Err(StoreError::new("unreachable")))
    }
}

#[tokio::test]
async fn a_broken_store_costs_resumption_and_nothing_else() {
    let resumable = Resumable::new().await;
    let mut ticket = resumable.left().await;
    let both = Resumable::with(|server| server.sessions(Broken)).await;
    let session = both.connect(both.client()).await.unwrap();
    assert_eq!(session.request(Count).await.unwrap(), 1);
    assert_eq!(session.request(Recall).await.unwrap(), None);
    ticket.server_key = both.key;
    let error = both.resume(&ticket).await.unwrap_err();
    assert!(
        matches!(&error, ConnectError::Refused(reason) if reason.code == CloseCode::Internal),
        "{error:?}"
    );
    assert!(error.is_retryable());
    assert!(both.server.revoke(nalix_server::SessionId::generate().unwrap()).await.is_err());
}
