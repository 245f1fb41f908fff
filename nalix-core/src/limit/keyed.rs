//! A bucket for each key.

use std::{
    collections::{HashMap, hash_map::RandomState},
    fmt,
    hash::{BuildHasher, Hash},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use super::{
    bucket::{Refused, since},
    level::Level,
    rate::Rate,
};

/// A bucket for each key, such as an address or an identity, in bounded memory.
///
/// A bucket that is full again is the same as none, so it can be forgotten, and only such ones are: whoever has spent tokens
/// stays known until they have come back. While there is no room for another key, all new keys have one bucket in common: a
/// flood of new keys gets one key's rate, and those who are known already do not notice.
pub struct KeyedLimiter<K> {
    rate: Rate,
    start: Instant,
    hasher: RandomState,
    shards: Box<[Mutex<Shard<K>>]>,
}

struct Shard<K> {
    /// Those of keys whose buckets are not full, and of a few more.
    levels: HashMap<K, Level>,
    /// That of all keys for which there is no room.
    others: Level,
    capacity: usize,
    /// Before this, looking for full buckets again finds few.
    sweep_at: u64,
}

impl<K> fmt::Debug for KeyedLimiter<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedLimiter").field("rate", &self.rate).finish_non_exhaustive()
    }
}

impl<K: Hash + Eq> KeyedLimiter<K> {
    /// Buckets for about `capacity` keys at a time, at least one for each of the 32 shards. Memory grows with the keys that
    /// there are: a key's size and some 24 bytes each. Times before `start` count as `start`.
    pub fn new(rate: Rate, capacity: usize, start: Instant) -> Self {
        let capacity = capacity.div_ceil(SHARDS).max(1);
        let shard =
            || Mutex::new(Shard { levels: HashMap::new(), others: Level::default(), capacity, sweep_at: 0 });
        Self { rate, start, hasher: RandomState::new(), shards: (0..SHARDS).map(|_| shard()).collect() }
    }

    /// Takes `cost` tokens from the bucket of a key, if there are as many.
    ///
    /// # Errors
    /// [`Refused`] if there are not. Nothing is taken then.
    #[inline]
    pub fn take(&self, key: K, cost: u32, now: Instant) -> Result<(), Refused> {
        let now = since(self.start, now);
        let mut shard = self.shard(&key);
        if let Some(level) = shard.levels.get_mut(&key) {
            return level.take(&self.rate, cost, now);
        }
        shard.add(key, &self.rate, cost, now)
    }

    /// How many keys are known whose buckets are not full, and a few that have not been forgotten yet.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).levels.len()).sum()
    }

    /// Whether no key is known.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The rate of each key.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    fn shard(&self, key: &K) -> MutexGuard<'_, Shard<K>> {
        // The upper bits, since the shard's own table goes by the lower ones of another hash.
        let at = (self.hasher.hash_one(key) >> 59) as usize;
        lock(&self.shards[at % SHARDS])
    }
}

impl<K: Hash + Eq> Shard<K> {
    #[cold]
    fn add(&mut self, key: K, rate: &Rate, cost: u32, now: u64) -> Result<(), Refused> {
        if self.levels.len() >= self.capacity && self.sweep_at <= now {
            self.levels.retain(|_, level| !level.is_full(now));
            // At most once while a bucket fills, so that a flood of keys does not make us look at all of them each time.
            self.sweep_at = now.saturating_add(rate.tolerance() / 8);
        }
        if self.levels.len() < self.capacity {
            let mut level = Level::default();
            level.take(rate, cost, now)?;
            self.levels.insert(key, level);
            return Ok(());
        }
        self.others.take(rate, cost, now)
    }
}

/// Nobody panics while holding it; if a key's own `Hash` or `Eq` did, the numbers are still whole.
fn lock<T>(shard: &Mutex<T>) -> MutexGuard<'_, T> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

const SHARDS: usize = 32;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn keys_do_not_touch_each_other() {
        let start = Instant::now();
        let limiter = KeyedLimiter::new(Rate::per_second(2), 1_000, start);
        for key in 0..100 {
            assert_eq!(limiter.take(key, 2, start), Ok(()));
        }
        for key in 0..100 {
            let refused = Refused { retry_after: Some(Duration::from_millis(500)) };
            assert_eq!(limiter.take(key, 1, start), Err(refused));
        }
        assert_eq!(limiter.len(), 100);
    }

    #[test]
    fn an_offender_is_not_forgiven_by_a_flood_of_other_keys() {
        let start = Instant::now();
        let limiter = KeyedLimiter::new(Rate::per_second(1), 64, start);
        assert_eq!(limiter.take(u64::MAX, 1, start), Ok(()));
        let mut passed = 0;
        for key in 0..100_000 {
            passed += u32::from(limiter.take(key, 1, start).is_ok());
            assert!(limiter.take(u64::MAX, 1, start).is_err(), "forgiven after {key}");
        }
        // Those there was room for, and one of the others for each shard.
        assert_eq!(passed, 63 + SHARDS as u32);
        assert_eq!(limiter.len(), 64);
    }

    #[test]
    fn room_comes_back_when_buckets_are_full_again() {
        let start = Instant::now();
        let limiter = KeyedLimiter::new(Rate::per_second(1), 64, start);
        let passed = (0..10_000).filter(|&key| limiter.take(key, 1, start).is_ok()).count();
        assert_eq!(passed, 64 + SHARDS);
        let later = start + Duration::from_secs(1);
        let passed = (20_000..30_000).filter(|&key| limiter.take(key, 1, later).is_ok()).count();
        assert_eq!(passed, 64 + SHARDS);
        assert_eq!(limiter.len(), 64);
    }

    #[test]
    fn a_refused_new_key_takes_no_room() {
        let start = Instant::now();
        let limiter = KeyedLimiter::new(Rate::per_second(1), 64, start);
        assert_eq!(limiter.take(1, 2, start), Err(Refused { retry_after: None }));
        assert!(limiter.is_empty());
    }
}
