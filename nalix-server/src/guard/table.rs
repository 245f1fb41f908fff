//! What is known of addresses: how many links they have, how often they come, and who is banned.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hash, Hasher},
    time::Duration,
};

use nalix_core::limit::{AddressKey, Level, Rate};

use super::{
    GuardOptions,
    bans::BanCause,
    keyed_hash::{KeyedHash, Through},
    options::MAX_BAN_WINDOW,
};
use crate::sync::{Guard, Mutex};

/// A table of addresses, in bounded memory and in shards with a lock each.
///
/// An address of which nothing is known is the same as one with no link, full buckets and no ban, so only such ones are
/// forgotten: no flood of other addresses makes it forgive one. While there is no room, all further addresses of a shard count
/// as one.
///
/// Times are nanoseconds since the guard was made.
#[derive(Debug)]
pub(super) struct Table {
    limits: Limits,
    hasher: KeyedHash,
    shards: Box<[Mutex<Shard>]>,
}

#[derive(Debug)]
struct Limits {
    links: usize,
    connects: Rate,
    /// How often an address may be at fault; `None` if nobody is banned for it.
    faults: Option<Faults>,
}

#[derive(Debug)]
struct Faults {
    /// `None`: not once.
    rate: Option<Rate>,
    ban_time: Duration,
}

#[derive(Debug)]
struct Shard {
    entries: HashMap<Hashed, Entry, BuildHasherDefault<Through>>,
    /// That of all addresses for which there is no room.
    others: Entry,
    capacity: usize,
    /// Before this, it is not worth looking for entries to forget again.
    sweep_at: u64,
}

#[derive(Debug, Default, Clone, Copy)]
struct Entry {
    links: usize,
    connects: Level,
    faults: Level,
    /// Zero if it never was.
    banned_until: u64,
    ban_cause: BanCause,
}

/// An address with its hash, which both its shard and its place there go by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hashed {
    pub(super) hash: u64,
    key: AddressKey,
}

/// A link's place in the table, to be given back with [`Table::release`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    hashed: Hashed,
    /// Whether its address has an entry of its own.
    own: bool,
}

/// Why an address is turned away, and for how many nanoseconds if that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Denial {
    Banned(u64),
    TooMany,
    TooFast(Option<Duration>),
}

impl Table {
    pub(super) fn new(options: &GuardOptions) -> Self {
        let rate = Rate::per_second(options.connects_per_second).with_burst(options.connect_burst);
        let bans =
            options.ban_after < u32::MAX && !options.ban_window.is_zero() && !options.ban_time.is_zero();
        let window = options.ban_window.min(MAX_BAN_WINDOW);
        let faults =
            bans.then(|| Faults { rate: Rate::new(options.ban_after, window), ban_time: options.ban_time });
        let capacity = options.max_addresses.div_ceil(SHARDS).max(1);
        let shard = || {
            Mutex::new(Shard { entries: HashMap::default(), others: Entry::default(), capacity, sweep_at: 0 })
        };
        Self {
            limits: Limits { links: options.max_connections_per_address, connects: rate, faults },
            hasher: KeyedHash::random(),
            shards: (0..SHARDS).map(|_| shard()).collect(),
        }
    }

    #[inline]
    pub(super) fn hashed(&self, key: AddressKey) -> Hashed {
        Hashed { hash: self.hasher.of(key), key }
    }

    /// Counts a link in. Being turned away costs nothing.
    ///
    /// # Errors
    /// [`Denial`] if it is to be turned away.
    #[inline]
    pub(super) fn admit(&self, hashed: Hashed, now: u64) -> Result<Slot, Denial> {
        let mut shard = self.shard(hashed);
        match shard.entries.get_mut(&hashed) {
            Some(entry) => {
                entry.admit(&self.limits, now)?;
                Ok(Slot { hashed, own: true })
            }
            None => shard.admit_new(hashed, &self.limits, now),
        }
    }

    /// Counts a link out.
    #[inline]
    pub(super) fn release(&self, slot: Slot) {
        let mut shard = self.shard(slot.hashed);
        let entry = if slot.own { shard.entries.get_mut(&slot.hashed) } else { Some(&mut shard.others) };
        if let Some(entry) = entry {
            entry.links -= 1;
        }
    }

    /// How long an address is still banned.
    pub(super) fn banned(&self, hashed: Hashed, now: u64) -> Option<u64> {
        self.shard(hashed).entries.get(&hashed)?.banned(now)
    }

    /// A client of this address was at fault. Returns for how long it is banned now, if this was once too often.
    pub(super) fn fault(&self, hashed: Hashed, now: u64) -> Option<Duration> {
        let faults = self.limits.faults.as_ref()?;
        let mut shard = self.shard(hashed);
        // Without room for it, it goes unpunished, rather than all others for which there is none.
        let entry = shard.entry(hashed, now)?;
        // Those who are still inside do not make it worse for all behind the address.
        if entry.banned(now).is_some() {
            return None;
        }
        if faults.rate.is_some_and(|rate| entry.faults.take(&rate, 1, now).is_ok()) {
            return None;
        }
        entry.faults = Level::default();
        entry.ban(now, faults.ban_time, BanCause::Faults);
        Some(faults.ban_time)
    }

    /// Bans an address. `false` if there is no room.
    pub(super) fn ban(&self, hashed: Hashed, time: Duration, now: u64) -> bool {
        let mut shard = self.shard(hashed);
        let Some(entry) = shard.entry(hashed, now) else { return false };
        entry.ban(now, time, BanCause::Explicit);
        true
    }

    /// Ends a ban, and forgives what led to it. Returns whether there was one.
    pub(super) fn lift(&self, hashed: Hashed, now: u64) -> bool {
        let mut shard = self.shard(hashed);
        let Some(entry) = shard.entries.get_mut(&hashed) else { return false };
        let was = entry.banned(now).is_some();
        (entry.banned_until, entry.faults) = (0, Level::default());
        was
    }

    /// Who is banned, for how many nanoseconds, and why.
    pub(super) fn bans(&self, now: u64) -> Vec<(AddressKey, u64, BanCause)> {
        let mut bans = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock();
            bans.extend(
                shard
                    .entries
                    .iter()
                    .filter_map(|(hashed, entry)| Some((hashed.key, entry.banned(now)?, entry.ban_cause))),
            );
        }
        bans
    }

    /// How many links an address has.
    pub(super) fn links(&self, hashed: Hashed) -> usize {
        self.shard(hashed).entries.get(&hashed).map_or(0, |entry| entry.links)
    }

    /// How many addresses there are entries for.
    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().entries.len()).sum()
    }

    #[inline]
    fn shard(&self, hashed: Hashed) -> Guard<'_, Shard> {
        // Neither of the bits that a shard's own table goes by first.
        self.shards[(hashed.hash >> 32) as usize % SHARDS].lock()
    }
}

impl Shard {
    #[cold]
    fn admit_new(&mut self, hashed: Hashed, limits: &Limits, now: u64) -> Result<Slot, Denial> {
        if self.has_room(now) {
            let mut entry = Entry::default();
            entry.admit(limits, now)?;
            self.entries.insert(hashed, entry);
            return Ok(Slot { hashed, own: true });
        }
        self.others.admit(limits, now)?;
        Ok(Slot { hashed, own: false })
    }

    /// The entry of an address, made if there is room for it.
    fn entry(&mut self, hashed: Hashed, now: u64) -> Option<&mut Entry> {
        if !self.entries.contains_key(&hashed) && !self.has_room(now) {
            return None;
        }
        Some(self.entries.entry(hashed).or_default())
    }

    fn has_room(&mut self, now: u64) -> bool {
        if self.entries.len() >= self.capacity && self.sweep_at <= now {
            self.entries.retain(|_, entry| !entry.is_forgettable(now));
            // A flood of new addresses does not make us look at all of them each time.
            self.sweep_at = now.saturating_add(SWEEP_INTERVAL);
        }
        self.entries.len() < self.capacity
    }
}

impl Entry {
    #[inline]
    fn admit(&mut self, limits: &Limits, now: u64) -> Result<(), Denial> {
        if let Some(left) = self.banned(now) {
            return Err(Denial::Banned(left));
        }
        if self.links >= limits.links {
            return Err(Denial::TooMany);
        }
        self.connects
            .take(&limits.connects, 1, now)
            .map_err(|refused| Denial::TooFast(refused.retry_after))?;
        self.links += 1;
        Ok(())
    }

    #[inline]
    fn banned(&self, now: u64) -> Option<u64> {
        self.banned_until.checked_sub(now).filter(|&left| left > 0)
    }

    fn ban(&mut self, now: u64, time: Duration, cause: BanCause) {
        let time = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        (self.banned_until, self.ban_cause) = (now.saturating_add(time), cause);
    }

    fn is_forgettable(&self, now: u64) -> bool {
        self.links == 0
            && self.connects.is_full(now)
            && self.faults.is_full(now)
            && self.banned(now).is_none()
    }
}

impl Hash for Hashed {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

const SHARDS: usize = 64;
/// In nanoseconds.
const SWEEP_INTERVAL: u64 = 100_000_000;

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn table(set: impl FnOnce(&mut GuardOptions)) -> Table {
        let mut options = GuardOptions::default();
        set(&mut options);
        Table::new(&options)
    }

    fn address(table: &Table, n: u32) -> Hashed {
        table.hashed(AddressKey::of(IpAddr::V4(Ipv4Addr::from_bits(n))))
    }

    #[test]
    fn closing_one_link_at_the_limit_admits_exactly_one() {
        for limit in [1, 2, 10] {
            let table = table(|options| options.max_connections_per_address = limit);
            let a = address(&table, 1);
            let mut slots: Vec<_> = (0..limit).map(|_| table.admit(a, 0).unwrap()).collect();
            for _ in 0..3 {
                assert_eq!(table.admit(a, 0).unwrap_err(), Denial::TooMany);
                assert!(table.admit(address(&table, 2), 0).map(|slot| table.release(slot)).is_ok());
                table.release(slots.pop().unwrap());
                slots.push(table.admit(a, 0).unwrap());
            }
            slots.into_iter().for_each(|slot| table.release(slot));
            assert_eq!(table.links(a), 0);
        }
    }

    #[test]
    fn being_refused_costs_nothing_and_extends_nothing() {
        let table = table(|options| (options.connects_per_second, options.connect_burst) = (1, 2));
        let a = address(&table, 1);
        let [first, second] = [0, 0].map(|now| table.admit(a, now).unwrap());
        for now in [0, SECOND / 2, SECOND - 1] {
            let left = Duration::from_nanos(SECOND - now);
            assert_eq!(table.admit(a, now).unwrap_err(), Denial::TooFast(Some(left)));
        }
        let third = table.admit(a, SECOND).unwrap();
        assert!(table.ban(a, Duration::from_secs(10), SECOND));
        for now in 1..10 {
            assert_eq!(table.admit(a, now * SECOND).unwrap_err(), Denial::Banned((11 - now) * SECOND));
        }
        assert!(table.admit(a, 11 * SECOND).map(|slot| table.release(slot)).is_ok());
        [first, second, third].into_iter().for_each(|slot| table.release(slot));
        assert_eq!(table.links(a), 0);
    }

    #[test]
    fn faults_ban_once_there_are_too_many_in_a_window() {
        let table = table(|options| {
            (options.ban_after, options.ban_window) = (3, Duration::from_secs(30));
            options.ban_time = Duration::from_secs(5);
        });
        let a = address(&table, 1);
        // One is forgiven each ten seconds.
        for now in 0..20 {
            assert_eq!(table.fault(a, now * 10 * SECOND), None);
        }
        let now = 200 * SECOND;
        assert!((0..3).all(|_| table.fault(a, now).is_none()));
        assert_eq!(table.fault(a, now), Some(Duration::from_secs(5)));
        // Faults of those who are still inside do not extend it.
        assert!((0..10).all(|_| table.fault(a, now + 4 * SECOND).is_none()));
        assert_eq!(table.bans(now + 4 * SECOND), [(a.key, SECOND, BanCause::Faults)]);
        assert!(table.bans(now + 5 * SECOND).is_empty());
        // Then the count begins anew.
        assert!((0..3).all(|_| table.fault(a, now + 5 * SECOND).is_none()));
        assert!(table.fault(a, now + 5 * SECOND).is_some() && table.lift(a, now + 5 * SECOND));
        assert!(!table.lift(a, now + 5 * SECOND) && table.banned(a, now + 5 * SECOND).is_none());
    }

    #[test]
    fn extremes_of_bans() {
        let count = |set: fn(&mut GuardOptions)| {
            let table = table(set);
            let a = address(&table, 1);
            (0..10_000).find(|_| table.fault(a, 1).is_some())
        };
        assert_eq!(count(|options| options.ban_after = 0), Some(0));
        assert_eq!(count(|options| options.ban_after = 1), Some(1));
        assert_eq!(count(|options| options.ban_after = u32::MAX), None);
        assert_eq!(count(|options| options.ban_window = Duration::ZERO), None);
        assert_eq!(count(|options| options.ban_window = Duration::MAX), Some(64));
        assert_eq!(count(|options| options.ban_time = Duration::ZERO), None);
        let table = table(|options| (options.ban_after, options.ban_time) = (0, Duration::MAX));
        let a = address(&table, 1);
        assert_eq!(table.fault(a, 1), Some(Duration::MAX));
        assert!(table.banned(a, u64::MAX - 1).is_some());
    }

    #[test]
    fn a_flood_of_addresses_forgives_nobody_and_takes_no_more_room() {
        let table = table(|options| {
            (options.max_addresses, options.max_connections_per_address) = (256, 1);
            (options.connects_per_second, options.ban_after) = (1, 1);
        });
        let [banned, held, at_fault] = [1, 2, 3].map(|n| address(&table, n));
        assert!(table.ban(banned, Duration::from_secs(3_600), 0));
        let slot = table.admit(held, 0).unwrap();
        assert_eq!(table.fault(at_fault, 0), None);
        let mut slots = Vec::new();
        for n in 0..50_000 {
            let now = u64::from(n) * 1_000_000;
            slots.extend(table.admit(address(&table, 0x0a00_0000 + n), now));
            assert!(matches!(table.admit(banned, now), Err(Denial::Banned(_))), "{n}");
            assert_eq!(table.admit(held, now).unwrap_err(), Denial::TooMany, "{n}");
            assert!(table.len() <= 256);
        }
        assert!(table.fault(at_fault, 59 * SECOND).is_some(), "its fault was forgotten");
        // Those for whom there was no room have one link in each shard together.
        assert!(slots.len() <= 256 + SHARDS, "{}", slots.len());
        slots.into_iter().for_each(|slot| table.release(slot));
        table.release(slot);
        assert!(table.admit(held, 60 * SECOND).is_ok());
    }

    #[test]
    fn room_comes_back_and_a_full_table_refuses_a_ban_rather_than_forget_one() {
        let table = table(|options| options.max_addresses = 1);
        let bans = (0..10_000).filter(|&n| table.ban(address(&table, n), Duration::from_secs(1), 0)).count();
        assert_eq!((bans, table.len(), table.bans(0).len()), (SHARDS, SHARDS, SHARDS));
        let later = 2 * SECOND;
        let bans = (20_000..30_000)
            .filter(|&n| table.ban(address(&table, n), Duration::from_secs(1), later))
            .count();
        assert_eq!(bans, SHARDS);
    }

    #[test]
    fn threads_together_get_no_more_than_one_may_have() {
        let table = table(|options| options.max_connections_per_address = 100);
        let a = address(&table, 1);
        let slots: Vec<Slot> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| (0..100).filter_map(|_| table.admit(a, 0).ok()).collect::<Vec<_>>()))
                .collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(slots.len(), 100);
        slots.into_iter().for_each(|slot| table.release(slot));
        assert_eq!(table.links(a), 0);
    }
}
