//! A store in Redis, for servers that share it and for restarts.

use std::{
    fmt,
    future::Future,
    sync::LazyLock,
    time::{Duration, Instant, SystemTime},
};

use nalix_core::{
    handshake::{SessionId, SessionRecord, SessionStore, StoreError, StoreFuture, Taken, TicketId},
    limit::{Breaker, BreakerOptions},
};
use redis::{Client, RedisError, Script, aio::ConnectionManager, aio::ConnectionManagerConfig};
use tokio::{sync::OnceCell, time::timeout};

/// Keeps sessions in Redis 6 or later, or what speaks its language (Valkey): they outlive the server, and several servers share them.
///
/// Each step is one script on Redis' side, so it is atomic for all who use the same Redis. Tickets go when they expire, by Redis'
/// own clock: no server's clock gives one a longer life. All keys have the prefix in braces, so that they lie in one slot of a cluster; replicas must not be asked, and are not.
///
/// A Redis that cannot be reached, or does not answer in time, holds nobody up: new connections go on without a ticket, and those
/// that would resume are told to try again, or make a whole handshake. The connection to it is made when it is first needed, and
/// made again when it is lost.
///
/// What it holds is as good as passwords: see `docs/security.md`, "Sessions that are resumed".
///
/// ```no_run
/// # async fn f() -> Result<(), Box<dyn std::error::Error>> {
/// use nalix_server::{Identity, Server, store::RedisStore};
///
/// let store = RedisStore::new("redis://127.0.0.1:6379/0")?.prefix("game");
/// let server = Server::builder()
///     .identity(Identity::load_or_generate("server.key")?)
///     .sessions(store)
///     .tcp("0.0.0.0:7777");
/// # Ok(()) }
/// ```
pub struct RedisStore {
    client: Client,
    connection: OnceCell<ConnectionManager>,
    prefix: String,
    timeout: Duration,
    breaker: Breaker,
}

impl RedisStore {
    /// A store in the Redis at this address: `redis://[user:password@]host[:port][/database]`, or `unix:///path`. Nothing is
    /// connected yet.
    ///
    /// There is no TLS (`rediss://`): where the network is not trusted, put a tunnel in between, such as stunnel, or have Redis on
    /// the same machine behind a unix socket.
    ///
    /// # Errors
    /// [`StoreError`] if it is no such address, or one with TLS.
    pub fn new(url: &str) -> Result<Self, StoreError> {
        let scheme = url.split("://").next().unwrap_or_default().trim();
        if ["rediss", "valkeys"].iter().any(|tls| scheme.eq_ignore_ascii_case(tls)) {
            return Err(StoreError::new(NO_TLS));
        }
        // The address may hold a password, and is not repeated.
        let client = Client::open(url).map_err(|_| StoreError::new("not the address of a Redis"))?;
        Ok(Self {
            client,
            connection: OnceCell::new(),
            prefix: "nalix".to_owned(),
            timeout: Duration::from_secs(1),
            breaker: Breaker::new(BreakerOptions::default()),
        })
    }

    /// What all keys begin with, in braces. Default `nalix`. Servers share their sessions if it is the same.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// How long a step may take, the connection to Redis included. Default 1 s.
    ///
    /// Too low gives up on a Redis that is only busy; too high makes handshakes wait for one that is gone. Zero never asks it.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// When a Redis that cannot be reached is left alone, and for how long. Default: [`BreakerOptions::default`].
    ///
    /// Meanwhile sessions are neither kept nor resumed, and nobody waits but one who tries after each
    /// [`cool_down`](field@BreakerOptions::cool_down).
    #[must_use]
    pub fn breaker(mut self, options: BreakerOptions) -> Self {
        self.breaker = Breaker::new(options);
        self
    }

    fn ticket_key(&self, ticket: TicketId) -> String {
        format!("{{{}}}:t:{:032x}", self.prefix, u128::from_be_bytes(*ticket.as_bytes()))
    }

    /// There while a session that was revoked may get no ticket.
    fn revoked_key(&self, session: SessionId) -> String {
        format!("{{{}}}:r:{session}", self.prefix)
    }

    fn session_key(&self, session: SessionId) -> String {
        format!("{{{}}}:s:{session}", self.prefix)
    }

    async fn connection(&self) -> Result<ConnectionManager, RedisError> {
        let connect = || async {
            let config = ConnectionManagerConfig::new()
                .set_connection_timeout(Some(self.timeout))
                .set_response_timeout(Some(self.timeout))
                .set_number_of_retries(1);
            ConnectionManager::new_with_config(self.client.clone(), config).await
        };
        Ok(self.connection.get_or_try_init(connect).await?.clone())
    }

    /// Does a step, in bounded time, unless others have waited in vain just now.
    async fn bounded<T>(&self, step: impl Future<Output = Result<T, RedisError>>) -> Result<T, StoreError> {
        if self.timeout.is_zero() {
            return Err(StoreError::new("Redis may take no time"));
        }
        let passed = self.breaker.pass(Instant::now()).map_err(|_| StoreError::new(LEFT_ALONE))?;
        let done = timeout(self.timeout, step).await;
        // One that answers with an error is there.
        let reached = match &done {
            Ok(Ok(_)) => true,
            Ok(Err(error)) => !(error.is_io_error() || error.is_timeout() || error.is_connection_dropped()),
            Err(_) => false,
        };
        passed.done(reached, Instant::now());
        match done {
            Ok(done) => done.map_err(StoreError::new),
            Err(_) => Err(StoreError::new(format!("Redis did not answer in {:?}", self.timeout))),
        }
    }

    async fn run<T: redis::FromRedisValue>(
        &self,
        script: &Script,
        keys: &[String],
        args: &[&[u8]],
    ) -> Result<T, StoreError> {
        self.bounded(async {
            let mut connection = self.connection().await?;
            let mut call = script.prepare_invoke();
            for key in keys {
                call.key(key);
            }
            for arg in args {
                call.arg(*arg);
            }
            call.invoke_async(&mut connection).await
        })
        .await
    }
}

const NO_TLS: &str = "TLS to Redis (rediss://) is not supported: use redis:// through a TLS tunnel such as stunnel, \
     or a unix socket (unix:///path)";
const LEFT_ALONE: &str = "Redis could not be reached and is not asked for a while";

/// Without the address, which may hold a password.
impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore")
            .field("prefix", &self.prefix)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

impl SessionStore for RedisStore {
    fn put(&self, ticket: TicketId, record: SessionRecord) -> StoreFuture<'_, ()> {
        StoreFuture::new(async move {
            let Some(left) = millis_left(&record) else { return Ok(()) };
            let key = self.ticket_key(ticket);
            let session = record.session;
            let keys = [key.clone(), self.session_key(session), self.revoked_key(session)];
            self.run(&PUT, &keys, &[&record.to_bytes(), left.as_bytes(), key.as_bytes()]).await
        })
    }

    fn get(&self, ticket: TicketId) -> StoreFuture<'_, Option<SessionRecord>> {
        StoreFuture::new(async move {
            let get = async {
                let mut connection = self.connection().await?;
                let mut get = redis::cmd("GET");
                get.arg(self.ticket_key(ticket)).query_async(&mut connection).await
            };
            let bytes: Option<Vec<u8>> = self.bounded(get).await?;
            bytes.map(|bytes| SessionRecord::from_bytes(&bytes).map_err(StoreError::new)).transpose()
        })
    }

    fn take(
        &self,
        ticket: TicketId,
        seen: &SessionRecord,
        (next, record): (TicketId, SessionRecord),
    ) -> StoreFuture<'_, Taken> {
        let seen = seen.clone();
        StoreFuture::new(async move {
            // One that has expired already is not put in, though its predecessor is gone.
            let left = millis_left(&record).unwrap_or_else(|| "1".to_owned());
            let (old, new) = (self.ticket_key(ticket), self.ticket_key(next));
            let keys = [old.clone(), new.clone(), self.session_key(record.session)];
            let (bytes, written) = (record.to_bytes(), seen.to_bytes());
            let mut other: Option<Vec<u8>> = None;
            loop {
                let expected = other.as_deref().unwrap_or(&written);
                let args: [&[u8]; 5] = [&bytes, left.as_bytes(), old.as_bytes(), new.as_bytes(), expected];
                let (taken, found): (u8, Vec<u8>) = self.run(&TAKE, &keys, &args).await?;
                match taken {
                    0 => return Ok(Taken::No),
                    1 => return Ok(Taken::Yes),
                    _ => {}
                }
                let now = SessionRecord::from_bytes(&found).map_err(StoreError::new)?;
                // Written by another version, it may say the same in other bytes.
                if now != seen {
                    return Ok(Taken::Changed(now));
                }
                other = Some(found);
            }
        })
    }

    fn update(&self, ticket: TicketId, record: SessionRecord) -> StoreFuture<'_, bool> {
        StoreFuture::new(
            async move { self.run(&UPDATE, &[self.ticket_key(ticket)], &[&record.to_bytes()]).await },
        )
    }

    fn revoke(&self, session: SessionId, lifetime: Duration) -> StoreFuture<'_, usize> {
        StoreFuture::new(async move {
            let keys = [self.session_key(session), self.revoked_key(session)];
            self.run(&REVOKE, &keys, &[millis(lifetime).max(1).to_string().as_bytes()]).await
        })
    }
}

/// How many milliseconds a record is still good for, if any.
fn millis_left(record: &SessionRecord) -> Option<String> {
    let left = record.expires.duration_since(SystemTime::now()).ok()?;
    let millis = millis(left);
    (millis > 0).then(|| millis.to_string())
}

/// What Redis takes at the most is far beyond any lifetime.
fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX).min(1 << 52)
}

static PUT: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
        if redis.call('EXISTS', KEYS[3]) == 1 then return 0 end
        redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
        redis.call('SADD', KEYS[2], ARGV[3])
        if redis.call('PTTL', KEYS[2]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[2], ARGV[2]) end
        return 1
        ",
    )
});

static TAKE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
        local found = redis.call('GET', KEYS[1])
        if not found then return {0, ''} end
        if found ~= ARGV[5] then return {2, found} end
        redis.call('DEL', KEYS[1])
        redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[2])
        redis.call('SREM', KEYS[3], ARGV[3])
        redis.call('SADD', KEYS[3], ARGV[4])
        if redis.call('PTTL', KEYS[3]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[3], ARGV[2]) end
        return {1, ''}
        ",
    )
});

// With a time of its own, a ticket could outlive the set by which it is found for revoking.
static UPDATE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
        if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
        redis.call('SET', KEYS[1], ARGV[1], 'KEEPTTL')
        return 1
        ",
    )
});

static REVOKE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
        redis.call('SET', KEYS[2], '', 'PX', ARGV[1])
        local n = 0
        for _, ticket in ipairs(redis.call('SMEMBERS', KEYS[1])) do n = n + redis.call('DEL', ticket) end
        redis.call('DEL', KEYS[1])
        return n
        ",
    )
});
