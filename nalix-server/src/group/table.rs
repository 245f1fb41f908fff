//! Which groups there are.

use std::{
    collections::HashMap,
    fmt,
    hash::{BuildHasher, Hash, RandomState},
    sync::{Arc, Weak},
};

use super::{
    key::{Key, Typed},
    room::Room,
};
use crate::{registry::Registry, sync::RwLock};

/// The groups that somebody holds: a member's connection, a handle, a subscription. Those that nobody holds are gone.
pub(crate) struct Groups {
    shards: Vec<RwLock<Shard>>,
    hasher: RandomState,
    pub(super) registry: Arc<Registry>,
    /// How many groups one connection may be in.
    pub(super) max_per_connection: usize,
}

/// A group shares its key with this table.
type Shard = HashMap<Arc<dyn Key>, Weak<Room>>;

impl fmt::Debug for Groups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Groups").field("count", &self.count()).finish_non_exhaustive()
    }
}

impl Groups {
    pub(crate) fn new(registry: Arc<Registry>, max_per_connection: usize) -> Self {
        let hasher = RandomState::new();
        let shards = (0..SHARDS).map(|_| RwLock::new(HashMap::with_hasher(hasher.clone()))).collect();
        Self { shards, hasher, registry, max_per_connection }
    }

    /// How many groups there are.
    pub(crate) fn count(&self) -> usize {
        self.shards.iter().map(|shard| shard.read().len()).sum()
    }

    /// The group of this name, which is made if there is none.
    pub(super) fn room<K>(self: &Arc<Self>, key: K) -> Arc<Room>
    where
        K: Hash + Eq + Send + Sync + 'static,
    {
        let key = Typed(key);
        let shard = self.shard(&key);
        let read = shard.read();
        let known = read.get(&key as &dyn Key).and_then(Weak::upgrade);
        drop(read);
        if let Some(room) = known {
            return room;
        }
        // Whatever can run a destructor of the user's, or the room's own, is dropped when the lock is gone.
        let key: Arc<dyn Key> = Arc::new(key);
        let fresh = Arc::new(Room::new(Arc::clone(&key), Arc::clone(self)));
        let mut write = shard.write();
        let room = match write.get_mut(&*key) {
            Some(place) => place.upgrade().unwrap_or_else(|| {
                *place = Arc::downgrade(&fresh);
                Arc::clone(&fresh)
            }),
            None => {
                write.insert(key, Arc::downgrade(&fresh));
                Arc::clone(&fresh)
            }
        };
        drop(write);
        room
    }

    /// Takes a group out that nobody holds any more, unless another of its name has taken its place.
    pub(super) fn forget(&self, key: &(dyn Key + 'static), room: *const Room) {
        let mut shard = self.shard(key).write();
        let ours = shard.get(key).is_some_and(|place| std::ptr::eq(place.as_ptr(), room));
        let entry = if ours { shard.remove_entry(key) } else { None };
        drop(shard);
        drop(entry);
    }

    fn shard(&self, key: &(dyn Key + 'static)) -> &RwLock<Shard> {
        // The map's own hash uses the low and the highest bits.
        let hash = self.hasher.hash_one(key);
        &self.shards[(hash >> 32) as usize % SHARDS]
    }
}

const SHARDS: usize = 32;
