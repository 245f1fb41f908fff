//! The open connections of a server, in a table indexed by their slots.
//!
//! Whether a connection is there is two loads, without a write that another thread's cache would hear of. A handle of it
//! takes four such writes: into and out of its place's lock, and the handle's own count up and down.

use std::{
    fmt, hint,
    sync::{
        OnceLock, PoisonError, RwLock, TryLockError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use nalix_core::{Connection, ConnectionId};

/// The open connections. Their places never move, and are used again.
pub(crate) struct Registry {
    /// Each holds twice as many places as the one before.
    chunks: [OnceLock<Box<[Place]>>; CHUNKS],
    count: AtomicUsize,
}

/// Where the connection with one slot is.
struct Place {
    /// The number of the connection that is there; of another slot's if there is none. It is set after the connection has
    /// come and changed before it goes, so nobody waits for the lock who looks here first.
    id: AtomicU64,
    connection: RwLock<Option<Connection>>,
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry").field("count", &self.count()).finish_non_exhaustive()
    }
}

impl Registry {
    pub(crate) fn new() -> Self {
        Self { chunks: [const { OnceLock::new() }; CHUNKS], count: AtomicUsize::new(0) }
    }

    pub(crate) fn insert(&self, connection: Connection) {
        let id = connection.id();
        let (chunk, at) = place(id.slot());
        let chunk = self.chunks[chunk].get_or_init(|| empty(chunk));
        let place = &chunk[at];
        let old = place.lock().replace(connection);
        place.id.store(id.get(), Ordering::Release);
        if old.is_none() {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn remove(&self, id: ConnectionId) -> Option<Connection> {
        let place = self.place(id)?;
        let nobody = nobody(id.slot());
        place.id.compare_exchange(id.get(), nobody, Ordering::AcqRel, Ordering::Relaxed).ok()?;
        let removed = place.lock().take()?;
        self.count.fetch_sub(1, Ordering::Relaxed);
        Some(removed)
    }

    #[inline]
    pub(crate) fn get(&self, id: ConnectionId) -> Option<Connection> {
        self.with(id, Connection::clone)
    }

    /// Lets `f` look at a connection in its place, where it stays meanwhile. `f` may look up others and the same again.
    #[inline]
    pub(crate) fn with<T>(&self, id: ConnectionId, f: impl FnOnce(&Connection) -> T) -> Option<T> {
        let place = self.place(id)?;
        while place.is(id) {
            let guard = match place.connection.try_read() {
                Ok(guard) => guard,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => {
                    // Somebody removes it, and has changed the number.
                    hint::spin_loop();
                    continue;
                }
            };
            // If another had taken the place before it was locked, the number would have changed before that.
            return if place.is(id) { guard.as_ref().map(f) } else { None };
        }
        None
    }

    #[inline]
    pub(crate) fn contains(&self, id: ConnectionId) -> bool {
        self.place(id).is_some_and(|place| place.is(id))
    }

    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// The connections as of now: those that come or go meanwhile may be among them or not.
    pub(crate) fn all(&self) -> Vec<Connection> {
        let mut all = Vec::with_capacity(self.count());
        for (chunk, places) in self.chunks.iter().enumerate() {
            for (slot, place) in (first(chunk)..).zip(places.get().into_iter().flatten()) {
                let id = ConnectionId::new(place.id.load(Ordering::Acquire));
                if id.slot() == slot {
                    all.extend(self.get(id));
                }
            }
        }
        all
    }

    #[inline]
    fn place(&self, id: ConnectionId) -> Option<&Place> {
        let (chunk, at) = place(id.slot());
        self.chunks.get(chunk)?.get()?.get(at)
    }
}

impl Place {
    #[inline]
    fn is(&self, id: ConnectionId) -> bool {
        self.id.load(Ordering::Acquire) == id.get()
    }

    fn lock(&self) -> std::sync::RwLockWriteGuard<'_, Option<Connection>> {
        self.connection.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which chunk a slot is in, and where.
#[inline]
fn place(slot: u32) -> (usize, usize) {
    let n = slot + FIRST;
    let chunk = n.ilog2() - FIRST.ilog2();
    (chunk as usize, (n - (FIRST << chunk)) as usize)
}

#[cold]
fn empty(chunk: usize) -> Box<[Place]> {
    let place = |slot| Place { id: AtomicU64::new(nobody(slot)), connection: RwLock::new(None) };
    (first(chunk)..first(chunk + 1)).map(place).collect()
}

/// The first slot of a chunk.
fn first(chunk: usize) -> u32 {
    (FIRST << chunk) - FIRST
}

/// What stands at a slot without a connection: the number of another slot.
fn nobody(slot: u32) -> u64 {
    !u64::from(slot)
}

/// How many places the first chunk holds.
const FIRST: u32 = 64;
/// Enough for all slots, of which there are fewer than 2^24.
const CHUNKS: usize = 19;

#[cfg(test)]
mod tests {
    use std::{hint::black_box, sync::atomic::AtomicBool, thread, time::Instant};

    use nalix_core::{
        connection::{Driver, Options, Serving, accept, connect},
        controller::Router,
        handshake::{ClientSecurity, Contracts, ServerSecurity},
        link::memory,
    };

    use super::*;

    /// Two connections that nobody drives.
    async fn pair() -> [Connection; 2] {
        let (ours, theirs) = memory::pair(1 << 16);
        let options = Options::default();
        let (client, server) = tokio::join!(
            connect(ours, Contracts::default(), &ClientSecurity::Plaintext, &options),
            accept(theirs, Contracts::default(), &ServerSecurity::Plaintext, &options)
        );
        [client.expect("connects"), server.expect("is accepted")]
            .map(|established| Driver::new(established, Serving::from(Router::empty()), &options).0)
    }

    #[tokio::test]
    async fn whoever_has_a_slot_next_is_not_found_under_the_old_number() {
        let registry = Registry::new();
        let old = pair().await;
        let ids = old.each_ref().map(Connection::id);
        old.into_iter().for_each(|connection| registry.insert(connection));
        assert_eq!((registry.count(), registry.all().len()), (2, 2));
        ids.iter().for_each(|id| assert_eq!(registry.get(*id).expect("is there").id(), *id));
        assert!(registry.remove(ids[0]).is_some());
        assert!(registry.remove(ids[0]).is_none(), "only once");
        // The slot is free, and somebody has it next.
        for connection in pair().await {
            registry.insert(connection);
        }
        assert!(
            !registry.contains(ids[0]) && registry.get(ids[0]).is_none() && registry.remove(ids[0]).is_none()
        );
        assert_eq!((registry.count(), registry.all().len()), (3, 3));
    }

    /// A lock that is taken again where another thread waits for it would never be free.
    #[tokio::test]
    async fn a_connection_that_is_being_removed_can_be_looked_up_by_who_keeps_it_there() {
        let registry = Registry::new();
        let [connection, other] = pair().await;
        let (id, other_id) = (connection.id(), other.id());
        registry.insert(connection);
        registry.insert(other);
        thread::scope(|scope| {
            let remover = registry.with(id, |connection| {
                let remover = scope.spawn(|| registry.remove(id).is_some());
                while registry.contains(id) {
                    thread::yield_now();
                }
                assert!(registry.get(id).is_none() && registry.with(id, |_| ()).is_none());
                assert!(registry.get(other_id).is_some());
                assert_eq!(registry.all().len(), 1);
                assert!(!remover.is_finished(), "it is lent out");
                assert_eq!(connection.id(), id);
                remover
            });
            assert!(remover.expect("it was there").join().expect("no panic"));
        });
        assert_eq!(registry.count(), 1);
    }

    #[tokio::test]
    async fn who_looks_up_while_connections_come_and_go_finds_that_one_or_nothing() {
        let registry = Registry::new();
        let connections: Vec<_> = [pair().await, pair().await].into_iter().flatten().collect();
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut found = 0;
                    while !done.load(Ordering::Relaxed) {
                        for connection in &connections {
                            let id = connection.id();
                            let got = registry.get(id);
                            assert!(got.is_none_or(|got| got == *connection));
                            found +=
                                usize::from(registry.with(id, |found| assert_eq!(found.id(), id)).is_some());
                        }
                        assert!(registry.all().len() <= connections.len());
                    }
                    assert!(found > 0, "there was nothing to find");
                });
            }
            for turn in 0..30_000 {
                for connection in &connections {
                    registry.insert(connection.clone());
                    assert_eq!(registry.get(connection.id()).as_ref(), Some(connection), "{turn}");
                }
                for connection in &connections {
                    assert!(registry.remove(connection.id()).is_some());
                    assert!(!registry.contains(connection.id()) && registry.get(connection.id()).is_none());
                }
            }
            done.store(true, Ordering::Relaxed);
        });
        assert_eq!((registry.count(), registry.all().len()), (0, 0));
    }

    #[test]
    fn every_slot_has_a_place_of_its_own() {
        let mut expected = (0, 0);
        for slot in 0..100_000 {
            assert_eq!(place(slot), expected, "{slot}");
            assert!(first(expected.0) as usize + expected.1 == slot as usize);
            expected.1 += 1;
            if expected.1 == (FIRST as usize) << expected.0 {
                expected = (expected.0 + 1, 0);
            }
        }
        let last = ConnectionId::new(u64::MAX).slot();
        assert_eq!(place(last).0, CHUNKS - 1);
        let registry = Registry::new();
        for id in [0, 1, u64::MAX, nobody(0), nobody(1), nobody(last)] {
            assert!(!registry.contains(ConnectionId::new(id)));
        }
        registry.chunks[0].get_or_init(|| empty(0));
        for id in (0..1_000).chain([nobody(0), nobody(63), u64::MAX]) {
            assert!(
                !registry.contains(ConnectionId::new(id)) && registry.get(ConnectionId::new(id)).is_none()
            );
        }
    }

    /// Prints what the table costs: `cargo test --release -p nalix-server --lib costs -- --ignored --nocapture`.
    #[tokio::test]
    #[ignore = "measures, and asserts nothing"]
    async fn costs() {
        const TURNS: u32 = 10_000;
        let registry = Registry::new();
        let mut ids = Vec::new();
        for _ in 0..5_000 {
            for connection in pair().await {
                ids.push(connection.id());
                registry.insert(connection);
            }
        }
        let [other, _] = pair().await;
        let time = |what: &str, mut f: Box<dyn FnMut(u32) + '_>| {
            let mut round = || {
                let start = Instant::now();
                (0..TURNS).for_each(&mut f);
                start.elapsed().as_nanos() as f64 / f64::from(TURNS)
            };
            // Whatever else the machine does counts in some of them.
            let fastest = (0..100).map(|_| round()).fold(f64::INFINITY, f64::min);
            println!("{what}: {fastest:.1} ns, at best");
        };
        let id = |n: u32| ids[n as usize % ids.len()];
        time("contains", Box::new(|n| assert!(black_box(registry.contains(black_box(id(n)))))));
        time("get, one id", Box::new(|_| drop(black_box(registry.get(black_box(ids[7]))))));
        time("with", Box::new(|n| assert!(registry.with(black_box(id(n)), |_| ()).is_some())));
        time("get", Box::new(|n| drop(black_box(registry.get(black_box(id(n)))))));
        let cycle = |_| {
            registry.insert(other.clone());
            drop(registry.remove(other.id()));
        };
        time("register and unregister", Box::new(cycle));
    }
}
