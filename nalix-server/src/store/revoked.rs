//! Sessions that have been revoked, and get no tickets any more.

use std::{
    collections::{HashMap, VecDeque, hash_map},
    time::Instant,
};

use nalix_core::handshake::SessionId;

use super::hash::NameHash;

/// For as long as tickets live, and so many at the most: the one goes that was revoked the longest time ago.
#[derive(Debug)]
pub(super) struct Revoked {
    sessions: HashMap<SessionId, Entry, NameHash>,
    /// A session that was revoked again has a place for each time, and goes with the last.
    by_age: VecDeque<(SessionId, u64)>,
    capacity: usize,
    next: u64,
}

#[derive(Debug)]
struct Entry {
    until: Instant,
    /// Its last place.
    number: u64,
}

impl Revoked {
    pub(super) fn new(capacity: usize) -> Self {
        let sessions = HashMap::with_hasher(NameHash::new());
        Self { sessions, by_age: VecDeque::new(), capacity, next: 0 }
    }

    pub(super) fn insert(&mut self, session: SessionId, until: Instant, now: Instant) {
        self.remove_expired(now);
        let number = self.next;
        self.next += 1;
        let until = self.sessions.get(&session).map_or(until, |known| known.until.max(until));
        self.sessions.insert(session, Entry { until, number });
        self.by_age.push_back((session, number));
        while self.by_age.len() > self.capacity {
            self.remove_oldest();
        }
    }

    pub(super) fn contains(&self, session: SessionId, now: Instant) -> bool {
        self.sessions.get(&session).is_some_and(|known| now < known.until)
    }

    /// Removes those at the old end that count no more.
    pub(super) fn remove_expired(&mut self, now: Instant) {
        while self.by_age.front().is_some_and(|(session, number)| {
            self.sessions.get(session).is_none_or(|known| known.number != *number || known.until <= now)
        }) {
            self.remove_oldest();
        }
    }

    fn remove_oldest(&mut self) {
        let Some((session, number)) = self.by_age.pop_front() else { return };
        if let hash_map::Entry::Occupied(known) = self.sessions.entry(session)
            && known.get().number == number
        {
            known.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn session(n: u8) -> SessionId {
        SessionId::from_bytes([n; SessionId::LEN])
    }

    #[test]
    fn the_last_revocation_counts_and_memory_is_bounded() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let mut revoked = Revoked::new(3);
        revoked.insert(session(1), start + second, start);
        revoked.insert(session(2), start + 9 * second, start);
        revoked.insert(session(1), start + 5 * second, start);
        let now = start + 2 * second;
        revoked.remove_expired(now);
        assert!(revoked.contains(session(1), now) && revoked.contains(session(2), now));
        for n in 3..200 {
            revoked.insert(session(n), now + second, now);
            assert!(revoked.sessions.len() <= 3 && revoked.by_age.len() <= 3);
        }
        assert!(!revoked.contains(session(1), now) && revoked.contains(session(199), now));
        revoked.remove_expired(now + second);
        assert!(revoked.sessions.is_empty() && revoked.by_age.is_empty());
    }
}
