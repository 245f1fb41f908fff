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
