//! The open connections of a server, in a table indexed by their slots.

use std::sync::{
    PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
    atomic::{AtomicUsize, Ordering},
};

use nalix_core::{Connection, ConnectionId};

/// The open connections. No lock is held while anything but this table is touched.
#[derive(Debug)]
pub(crate) struct Registry {
    shards: [RwLock<Shard>; SHARDS],
    count: AtomicUsize,
}

/// A slot's connection is at its place; the rest of its id tells it from those before and after.
type Shard = Vec<Option<Connection>>;

impl Registry {
    pub(crate) fn new() -> Self {
        Self { shards: [const { RwLock::new(Vec::new()) }; SHARDS], count: AtomicUsize::new(0) }
    }

    pub(crate) fn insert(&self, connection: Connection) {
        let (shard, at) = place(connection.id());
        let mut shard = self.write(shard);
        if shard.len() <= at {
            shard.resize(at + 1, None);
        }
        if shard[at].replace(connection).is_none() {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn remove(&self, id: ConnectionId) -> Option<Connection> {
        let (shard, at) = place(id);
        let mut shard = self.write(shard);
        let removed = shard.get_mut(at)?.take_if(|found| found.id() == id)?;
        self.count.fetch_sub(1, Ordering::Relaxed);
        Some(removed)
    }

    pub(crate) fn get(&self, id: ConnectionId) -> Option<Connection> {
        let (shard, at) = place(id);
        self.read(shard).get(at)?.as_ref().filter(|found| found.id() == id).cloned()
    }

    pub(crate) fn contains(&self, id: ConnectionId) -> bool {
        let (shard, at) = place(id);
        self.read(shard).get(at).is_some_and(|found| found.as_ref().is_some_and(|found| found.id() == id))
    }

    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// The connections as of now, or rather as of one moment for each shard.
    pub(crate) fn all(&self) -> Vec<Connection> {
        let mut all = Vec::with_capacity(self.count());
        for shard in 0..SHARDS {
            all.extend(self.read(shard).iter().flatten().cloned());
        }
        all
    }

    fn read(&self, shard: usize) -> RwLockReadGuard<'_, Shard> {
        self.shards[shard].read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, shard: usize) -> RwLockWriteGuard<'_, Shard> {
        self.shards[shard].write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Neighbouring slots are in different shards.
fn place(id: ConnectionId) -> (usize, usize) {
    let slot = id.slot() as usize;
    (slot % SHARDS, slot / SHARDS)
}

const SHARDS: usize = 16;

#[cfg(test)]
mod tests {
    use std::{hint::black_box, time::Instant};

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

    /// Prints what the table costs: `cargo test --release -p nalix-server --lib costs -- --ignored --nocapture`.
    #[tokio::test]
    #[ignore = "measures, and asserts nothing"]
    async fn costs() {
        const TURNS: u32 = 1_000_000;
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
            let start = Instant::now();
            (0..TURNS).for_each(&mut f);
            println!("{what}: {:.1} ns", start.elapsed().as_nanos() as f64 / f64::from(TURNS));
        };
        let id = |n: u32| ids[n as usize % ids.len()];
        time("contains", Box::new(|n| assert!(black_box(registry.contains(black_box(id(n)))))));
        time("get, one id", Box::new(|_| drop(black_box(registry.get(black_box(ids[7]))))));
        time("get", Box::new(|n| drop(black_box(registry.get(black_box(id(n)))))));
        let cycle = |_| {
            registry.insert(other.clone());
            drop(registry.remove(other.id()));
        };
        time("register and unregister", Box::new(cycle));
    }
}
