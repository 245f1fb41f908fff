//! Sessions in Redis: the promises of a store, servers that restart and servers that share.
//!
//! `NALIX_TEST_REDIS` says where there is one for tests (such as `redis://127.0.0.1:6379`). Tests that need it are left out unless
//! they are asked for: `cargo test -p nalix-server --features redis --test redis_store -- --include-ignored`.

use std::{
    future::Future,
    time::{Duration, SystemTime},
};

use nalix_client::{Client, Session, SessionTicket};
use nalix_core::{Permission, handshake::Identity, limit::BreakerOptions};
use nalix_server::{
    Context, HubExt, Server, ServerHandle, Status, packet, packet_controller,
    store::{Key, RedisStore, SessionId, SessionRecord, SessionStore, Taken, TicketId},
};

/// Runs a test with a store whose keys nobody else has.
async fn with_redis<F: Future<Output = ()>>(test: impl FnOnce(RedisStore, String) -> F) {
    let prefix = format!("test-{}", SessionId::generate().unwrap());
    test(store(&url(), &prefix), prefix.clone()).await;
}

fn store(url: &str, prefix: &str) -> RedisStore {
    RedisStore::new(url).unwrap().prefix(prefix).timeout(Duration::from_secs(10))
}

fn url() -> String {
    std::env::var("NALIX_TEST_REDIS").expect("NALIX_TEST_REDIS says where a Redis for tests is")
}

fn record(session: SessionId, secret: u8, lifetime: Duration) -> SessionRecord {
    let mut record = SessionRecord::new(session, Key::new([secret; Key::LEN]), SystemTime::now() + lifetime);
    record.data.insert("user", &String::from("ada")).unwrap();
    record
}

/// Takes a ticket as it is.
async fn take(store: &RedisStore, ticket: TicketId, next: (TicketId, SessionRecord)) -> bool {
    let Some(seen) = store.get(ticket).await.unwrap() else { return false };
    store.take(ticket, &seen, next).await.unwrap() == Taken::Yes
}

const HOUR: Duration = Duration::from_secs(3_600);

#[tokio::test]
#[ignore = "needs a Redis: NALIX_TEST_REDIS"]
async fn of_all_who_take_a_ticket_one_gets_it() {
    with_redis(|store, prefix| async move {
        let (session, ticket) = (SessionId::generate().unwrap(), TicketId::generate().unwrap());
        store.put(ticket, record(session, 1, HOUR)).await.unwrap();
        assert_eq!(
            store.get(ticket).await.unwrap().unwrap().data.get::<String>("user").unwrap().as_deref(),
            Some("ada")
        );
        let mut tasks = tokio::task::JoinSet::new();
        for n in 0..50 {
            // Servers of their own.
            let (prefix, next) = (prefix.clone(), TicketId::generate().unwrap());
            tasks.spawn(async move {
                let taken = take(&another(&prefix), ticket, (next, record(session, n, HOUR))).await;
                (taken, next)
            });
        }
        let done = tasks.join_all().await;
        let winners: Vec<_> = done.iter().filter(|(taken, _)| *taken).collect();
        assert_eq!(winners.len(), 1);
        for (taken, next) in &done {
            assert_eq!(store.get(*next).await.unwrap().is_some(), *taken);
        }
        assert!(store.get(ticket).await.unwrap().is_none());
        assert_eq!(store.revoke(session, HOUR).await.unwrap(), 1);
        assert!(store.get(winners[0].1).await.unwrap().is_none());
    })
    .await;
}

fn another(prefix: &str) -> RedisStore {
    store(&url(), prefix)
}

#[tokio::test]
#[ignore = "needs a Redis: NALIX_TEST_REDIS"]
async fn what_was_taken_or_revoked_never_comes_back() {
    with_redis(|store, _| async move {
        let session = SessionId::generate().unwrap();
        let [a, b, c] = [(); 3].map(|()| TicketId::generate().unwrap());
        store.put(a, record(session, 1, HOUR)).await.unwrap();
        assert!(store.update(a, record(session, 2, HOUR)).await.unwrap());
        assert!(take(&store, a, (b, record(session, 3, HOUR))).await);
        assert!(!store.update(a, record(session, 4, HOUR)).await.unwrap());
        assert!(!take(&store, a, (c, record(session, 5, HOUR))).await);
        assert!(store.get(a).await.unwrap().is_none() && store.get(c).await.unwrap().is_none());
        assert_eq!(store.revoke(session, HOUR).await.unwrap(), 1);
        assert!(!store.update(b, record(session, 6, HOUR)).await.unwrap());
        assert!(!take(&store, b, (c, record(session, 7, HOUR))).await);
        assert_eq!(store.revoke(session, HOUR).await.unwrap(), 0);
    })
    .await;
}

/// Whichever comes first, nothing is left.
#[tokio::test]
#[ignore = "needs a Redis: NALIX_TEST_REDIS"]
async fn a_revocation_wins_over_a_ticket_that_is_taken_meanwhile() {
    with_redis(|store, prefix| async move {
        for _ in 0..50 {
            let session = SessionId::generate().unwrap();
            let [a, b] = [(); 2].map(|()| TicketId::generate().unwrap());
            store.put(a, record(session, 1, HOUR)).await.unwrap();
            let other = another(&prefix);
            let (_, revoked) =
                tokio::join!(take(&other, a, (b, record(session, 2, HOUR))), store.revoke(session, HOUR));
            assert_eq!(revoked.unwrap(), 1);
            assert!(store.get(a).await.unwrap().is_none() && store.get(b).await.unwrap().is_none());
        }
    })
    .await;
}

#[tokio::test]
#[ignore = "needs a Redis: NALIX_TEST_REDIS"]
async fn tickets_go_when_they_expire() {
    with_redis(|store, _| async move {
        let (session, ticket) = (SessionId::generate().unwrap(), TicketId::generate().unwrap());
        store.put(ticket, record(session, 1, Duration::ZERO)).await.unwrap();
        assert!(store.get(ticket).await.unwrap().is_none());
        store.put(ticket, record(session, 1, Duration::from_millis(20))).await.unwrap();
        while store.get(ticket).await.unwrap().is_some() {
            tokio::task::yield_now().await;
        }
        assert!(!take(&store, ticket, (TicketId::generate().unwrap(), record(session, 1, HOUR))).await);
    })
    .await;
}

#[tokio::test]
#[ignore = "needs a Redis: NALIX_TEST_REDIS"]
async fn a_ticket_that_is_put_in_after_its_session_was_revoked_is_not_there() {
    with_redis(|store, prefix| async move {
        let [session, other] = [(); 2].map(|()| SessionId::generate().unwrap());
        let [a, b] = [(); 2].map(|()| TicketId::generate().unwrap());
        assert_eq!(store.revoke(session, HOUR).await.unwrap(), 0);
        // On another server.
        another(&prefix).put(a, record(session, 1, HOUR)).await.unwrap();
        assert!(store.get(a).await.unwrap().is_none());
        store.put(b, record(other, 1, HOUR)).await.unwrap();
        assert!(store.get(b).await.unwrap().is_some());
        // The revocation is forgotten when nothing of that time can come any more.
        store.revoke(other, Duration::from_millis(20)).await.unwrap();
        while store.get(b).await.unwrap().is_none() {
            store.put(b, record(other, 1, HOUR)).await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
#[ignore = "needs a Redis: NALIX_TEST_REDIS"]
async fn a_ticket_that_has_changed_since_it_was_seen_is_not_taken() {
    with_redis(|store, _| async move {
        let session = SessionId::generate().unwrap();
        let [a, b] = [(); 2].map(|()| TicketId::generate().unwrap());
        store.put(a, record(session, 1, HOUR)).await.unwrap();
        let seen = store.get(a).await.unwrap().unwrap();
        let mut changed = seen.clone();
        changed.data.insert("user", &String::from("nobody")).unwrap();
        assert!(store.update(a, changed.clone()).await.unwrap());
        let next = || (b, record(session, 2, HOUR));
        assert_eq!(store.take(a, &seen, next()).await.unwrap(), Taken::Changed(changed.clone()));
        assert!(store.get(b).await.unwrap().is_none());
        assert_eq!(store.get(a).await.unwrap(), Some(changed.clone()));
        assert_eq!(store.take(a, &changed, next()).await.unwrap(), Taken::Yes);
        assert_eq!(store.take(a, &changed, next()).await.unwrap(), Taken::No);
    })
    .await;
}

/// A server whose clock was set back believes that a record is good for longer. A ticket that outlives the set by which it is found
/// could not be revoked.
#[tokio::test]
#[ignore = "needs a Redis: NALIX_TEST_REDIS"]
async fn an_update_gives_a_ticket_no_longer_life() {
    with_redis(|store, prefix| async move {
        let (session, ticket) = (SessionId::generate().unwrap(), TicketId::generate().unwrap());
        store.put(ticket, record(session, 1, HOUR)).await.unwrap();
        assert!(store.update(ticket, record(session, 1, 10 * HOUR)).await.unwrap());
        let mut raw = Raw::new(&prefix).await;
        let set = raw.command::<i64>(redis::cmd("PTTL").arg(raw.session(session))).await;
        let left = raw.command::<i64>(redis::cmd("PTTL").arg(raw.ticket(ticket))).await;
        assert!(0 < left && left <= set && set <= HOUR.as_millis() as i64, "{left} {set}");
    })
    .await;
}

/// As another version could write it.
#[tokio::test]
#[ignore = "needs a Redis: NALIX_TEST_REDIS"]
async fn a_record_that_says_the_same_in_other_bytes_can_be_taken() {
    with_redis(|store, prefix| async move {
        let session = SessionId::generate().unwrap();
        let [a, b] = [(); 2].map(|()| TicketId::generate().unwrap());
        let mut two = SessionRecord::new(session, Key::new([1; Key::LEN]), SystemTime::now() + HOUR);
        two.data.insert("a", &1u8).unwrap();
        two.data.insert("b", &2u8).unwrap();
        let mut bytes = two.to_bytes().to_vec();
        let (one, other) = (bytes.len() - 8, bytes.len() - 4);
        assert_eq!(bytes[one..], [1, b'a', 1, 1, 1, b'b', 1, 2]);
        bytes[one..].rotate_left(other - one);
        let mut raw = Raw::new(&prefix).await;
        raw.command::<()>(redis::cmd("SET").arg(raw.ticket(a)).arg(bytes)).await;
        let seen = store.get(a).await.unwrap().unwrap();
        assert_eq!(seen, two);
        assert_eq!(store.take(a, &seen, (b, record(session, 2, HOUR))).await.unwrap(), Taken::Yes);
        assert!(store.get(b).await.unwrap().is_some());
    })
    .await;
}

/// A look past the store.
struct Raw {
    connection: redis::aio::MultiplexedConnection,
    prefix: String,
}

impl Raw {
    async fn new(prefix: &str) -> Self {
        let client = redis::Client::open(url()).unwrap();
        let connection = client.get_multiplexed_async_connection().await.unwrap();
        Self { connection, prefix: prefix.to_owned() }
    }

    fn ticket(&self, ticket: TicketId) -> String {
        format!("{{{}}}:t:{:032x}", self.prefix, u128::from_be_bytes(*ticket.as_bytes()))
    }

    fn session(&self, session: SessionId) -> String {
        format!("{{{}}}:s:{session}", self.prefix)
    }

    async fn command<T: redis::FromRedisValue>(&mut self, command: &redis::Cmd) -> T {
        command.query_async(&mut self.connection).await.unwrap()
    }
}

#[test]
fn an_address_with_tls_is_refused_and_the_error_says_what_to_do() {
    for url in ["rediss://user:hush@example.org:6380/0", "REDISS://example.org", "valkeys://example.org"] {
        let error = RedisStore::new(url).unwrap_err().to_string();
        assert!(error.contains("TLS") && error.contains("stunnel") && error.contains("unix:///"), "{error}");
        assert!(!error.contains("hush"), "{error}");
    }
}

/// One waits in vain; the others are told at once, without a word to Redis.
#[tokio::test]
async fn a_redis_that_has_failed_is_left_alone_for_a_while() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut options = BreakerOptions::default();
    (options.failures, options.cool_down) = (2, HOUR);
    let url = format!("redis://{}", listener.local_addr().unwrap());
    let store = RedisStore::new(&url).unwrap().timeout(Duration::from_millis(20)).breaker(options);
    let (ticket, session) = (TicketId::generate().unwrap(), SessionId::generate().unwrap());
    for _ in 0..2 {
        let error = store.get(ticket).await.unwrap_err().to_string();
        assert!(!error.contains("not asked"), "{error}");
    }
    for error in [
        store.get(ticket).await.unwrap_err(),
        store.put(ticket, record(session, 1, HOUR)).await.unwrap_err(),
        store.update(ticket, record(session, 1, HOUR)).await.unwrap_err(),
        store.revoke(session, HOUR).await.unwrap_err(),
    ] {
        assert!(error.to_string().contains("not asked"), "{error}");
    }
}

#[tokio::test]
async fn a_redis_that_is_not_there_holds_nobody_up() {
    // It takes connections and says nothing.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    let store = RedisStore::new(&url).unwrap().timeout(Duration::from_millis(50));
    assert!(store.get(TicketId::generate().unwrap()).await.is_err());
    let identity = Identity::generate().unwrap();
    let server =
        Server::builder().identity(identity.clone()).sessions(store).tcp("127.0.0.1:0").controller(Game);
    let server = server.build().await.unwrap();
    let address = format!("tcp://{}", server.local_addr());
    drop(server.spawn());
    let session = Client::builder(address).server_key(identity.public_key()).connect().await.unwrap();
    assert!(session.request(Secret).await.is_err(), "it is there, though nobody has logged in");
    assert!(RedisStore::new("http://example.org").is_err());
    let shown = format!("{:?}", RedisStore::new("redis://user:hush@127.0.0.1/").unwrap());
    assert!(!shown.contains("hush"), "{shown}");
}

#[packet(opcode = 0x1001, reply = ())]
struct Login(String);

#[packet(opcode = 0x1002, reply = String)]
struct Secret;

struct Game;

#[packet_controller]
impl Game {
    #[packet]
    async fn login(&self, ctx: &Context, Login(name): Login) -> Result<(), Status> {
        ctx.set_permission(Permission::USER);
        ctx.hub().identify(ctx, name.clone());
        let session = ctx.resumption().ok_or_else(|| Status::internal("no session"))?;
        session.insert("name", &name).map_err(|_| Status::internal("too long"))?;
        session.saved().await;
        Ok(())
    }

    #[packet(permission = Permission::USER)]
    fn secret(&self, ctx: &Context, _: Secret) -> String {
        let name = ctx.resumption().and_then(|session| session.get::<String>("name").ok().flatten());
        let identity = ctx.hub().identity_of(ctx);
        format!("{} is {}", name.unwrap_or_default(), identity.unwrap_or_default())
    }
}

async fn serve(identity: &Identity, prefix: &str) -> (ServerHandle, String) {
    let server = Server::builder()
        .identity(identity.clone())
        .sessions(store(&url(), prefix))
        .tcp("127.0.0.1:0")
        .controller(Game)
        .build()
        .await
        .unwrap();
    let address = format!("tcp://{}", server.local_addr());
    let handle = server.handle();
    drop(server.spawn());
    (handle, address)
}

async fn resume(address: &str, identity: &Identity, ticket: SessionTicket) -> Session {
    let builder = Client::builder(address).server_key(identity.public_key()).no_reconnect();
    builder.resume(ticket).connect().await.unwrap()
}

#[tokio::test]
#[ignore = "needs a Redis: NALIX_TEST_REDIS"]
async fn who_a_client_is_and_what_it_may_do_survives_restarts_and_moves_to_other_servers() {
    with_redis(|_, prefix| async move {
        let identity = Identity::generate().unwrap();
        let (one, address) = serve(&identity, &prefix).await;
        let builder = Client::builder(&address).server_key(identity.public_key()).no_reconnect();
        let session = builder.connect().await.unwrap();
        assert!(session.request(Secret).await.is_err(), "nobody has logged in");
        session.request(Login("ada".into())).await.unwrap();
        assert_eq!(session.request(Secret).await.unwrap(), "ada is ada");
        let ticket = session.ticket().unwrap();
        session.close().await;
        one.stop_now();
        // Another process would know no more than what is in Redis.
        let (two, address) = serve(&identity, &prefix).await;
        let session = resume(&address, &identity, ticket.clone()).await;
        assert!(session.is_resumed());
        assert_eq!(session.request(Secret).await.unwrap(), "ada is ada");
        let next = session.ticket().unwrap();
        session.close().await;
        // A third shares the store with the second, and a ticket is good once.
        let (three, address) = serve(&identity, &prefix).await;
        let stale = resume(&address, &identity, ticket).await;
        assert!(!stale.is_resumed() && stale.request(Secret).await.is_err());
        let session = resume(&address, &identity, next).await;
        assert_eq!(session.request(Secret).await.unwrap(), "ada is ada");
        let last = session.ticket().unwrap();
        let id = three
            .connections()
            .iter()
            .find_map(|c| c.resumption().filter(|r| r.is_resumed()).map(|r| r.session_id()));
        // Revoked on one server, it is revoked on all.
        two.revoke(id.unwrap()).await.unwrap();
        let revoked = resume(&address, &identity, last).await;
        assert!(!revoked.is_resumed());
        two.stop_now();
        three.stop_now();
    })
    .await;
}
