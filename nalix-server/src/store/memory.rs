//! A store in the server's own memory.

use std::{
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use nalix_core::handshake::{SessionId, SessionRecord, SessionStore, StoreFuture, Taken, TicketId};

use super::{moment::Moment, table::Table};

/// Keeps sessions in the memory of the process: none outlives it, and no other server knows them.
///
/// Each method does its work when it is called, under one short lock, and its future is ready at once.
///
/// How long a ticket has to live is counted from when it was put in, by a clock that nobody sets: a system clock that is set back
/// gives it no longer life. It remembers as many sessions that were revoked as it may hold tickets.
///
/// ```
/// use nalix_server::store::{MemoryStore, SessionStore, TicketId};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = MemoryStore::new();
/// assert!(store.get(TicketId::generate()?).await?.is_none());
/// # Ok(())
/// # }
/// ```
pub struct MemoryStore {
    table: Mutex<Table>,
    wall: Clock<SystemTime>,
    monotonic: Clock<Instant>,
}

type Clock<T> = Box<dyn Fn() -> T + Send + Sync>;

impl MemoryStore {
    /// What [`MemoryStore::new`] holds at the most.
    pub const DEFAULT_CAPACITY: usize = 65_536;

    /// A store for [`MemoryStore::DEFAULT_CAPACITY`] tickets.
    pub fn new() -> Self {
        Self::with_capacity(Self::DEFAULT_CAPACITY)
    }

    /// A store for this many tickets; a session has one, as a rule. Memory is taken as they come: some 300
    /// bytes for each, which are kept for others, and what its data takes, at the most
    /// [`SessionData::MAX_SIZE`](super::SessionData::MAX_SIZE).
    ///
    /// When it is full, a new ticket takes the place of the one that was put in or renewed the longest time
    /// ago; where lifetimes differ, those that have expired are looked for first, now and then. Too low, and
    /// clients that could have resumed make a whole handshake; too high, and strangers who connect and go
    /// away take that much memory for as long as tickets live. 0 keeps nothing, so that nobody resumes.
    pub fn with_capacity(capacity: usize) -> Self {
        let table = Mutex::new(Table::new(capacity));
        Self { table, wall: Box::new(SystemTime::now), monotonic: Box::new(Instant::now) }
    }

    /// Takes the time by which records say until when they are good from `now` instead of the system's clock. Counts when a ticket
    /// is put in or renewed.
    #[must_use]
    pub fn clock(mut self, now: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.wall = Box::new(now);
        self
    }

    /// Takes the time by which tickets expire from `now` instead of [`Instant::now`]. It must not go back.
    #[must_use]
    pub fn monotonic_clock(mut self, now: impl Fn() -> Instant + Send + Sync + 'static) -> Self {
        self.monotonic = Box::new(now);
        self
    }

    /// How many tickets it holds, those included that have expired and are not yet removed.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many tickets it holds at the most.
    pub fn capacity(&self) -> usize {
        self.lock().capacity()
    }

    /// Removes all that have expired, and says how many. It happens by and by without this as others are put
    /// in; call it where few are, to have secrets wiped and the memory of their data back. Holds the lock
    /// while it looks at every ticket.
    pub fn remove_expired(&self) -> usize {
        let now = (self.monotonic)();
        self.lock().remove_expired(now)
    }

    fn moment(&self) -> Moment {
        Moment { at: (self.monotonic)(), wall: (self.wall)() }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SessionStore for MemoryStore {
    fn put(&self, ticket: TicketId, record: SessionRecord) -> StoreFuture<'_, ()> {
        let now = self.moment();
        self.lock().put(ticket, record, now);
        StoreFuture::ready(Ok(()))
    }

    fn get(&self, ticket: TicketId) -> StoreFuture<'_, Option<SessionRecord>> {
        let now = (self.monotonic)();
        let found = self.lock().get(ticket, now).cloned();
        StoreFuture::ready(Ok(found))
    }

    fn take(
        &self,
        ticket: TicketId,
        seen: &SessionRecord,
        next: (TicketId, SessionRecord),
    ) -> StoreFuture<'_, Taken> {
        let now = self.moment();
        let taken = self.lock().take(ticket, seen, next, now);
        StoreFuture::ready(Ok(taken))
    }

    fn update(&self, ticket: TicketId, record: SessionRecord) -> StoreFuture<'_, bool> {
        let now = self.moment();
        let updated = self.lock().update(ticket, record, now);
        StoreFuture::ready(Ok(updated))
    }

    fn revoke(&self, session: SessionId, lifetime: Duration) -> StoreFuture<'_, usize> {
        let now = self.moment();
        let revoked = self.lock().revoke(session, lifetime, now);
        StoreFuture::ready(Ok(revoked))
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (len, capacity) = {
            let table = self.lock();
            (table.len(), table.capacity())
        };
        f.debug_struct("MemoryStore").field("len", &len).field("capacity", &capacity).finish_non_exhaustive()
    }
}
