//! The tickets of a [`MemoryStore`](super::MemoryStore), by name, by session and by age.

use std::{
    collections::{HashMap, hash_map},
    time::{Duration, Instant},
};

use nalix_core::handshake::{SessionId, SessionRecord, Taken, TicketId};

use super::{
    hash::NameHash,
    moment::Moment,
    revoked::Revoked,
    slab::{Links, List, Slab},
};

#[derive(Debug)]
pub(super) struct Table {
    entries: Slab<Entry>,
    by_ticket: HashMap<TicketId, u32, NameHash>,
    by_session: HashMap<SessionId, List, NameHash>,
    /// The one that was put in or renewed the longest time ago comes first.
    by_age: List,
    capacity: usize,
    /// No entry expires before this.
    earliest: Option<Instant>,
    /// How many were put in since all entries were looked at.
    since_sweep: usize,
    revoked: Revoked,
}

#[derive(Debug)]
struct Entry {
    ticket: TicketId,
    record: SessionRecord,
    /// From when on it is as good as absent.
    until: Instant,
    age: Links,
    session: Links,
}

impl Table {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            entries: Slab::new(),
            by_ticket: HashMap::with_hasher(NameHash::new()),
            by_session: HashMap::with_hasher(NameHash::new()),
            by_age: List::default(),
            // Places have numbers of 32 bits.
            capacity: capacity.min(1 << 31),
            earliest: None,
            since_sweep: 0,
            revoked: Revoked::new(capacity),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.by_ticket.len()
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    pub(super) fn put(&mut self, ticket: TicketId, record: SessionRecord, now: Moment) {
        let session = record.session;
        if self.capacity == 0 || self.revoked.contains(session, now.at) {
            return;
        }
        self.since_sweep += 1;
        let until = now.until(record.expires);
        self.note_expiry(until);
        let entry = Entry { ticket, record, until, age: Links::default(), session: Links::default() };
        let at = self.entries.insert(entry);
        self.name(ticket, at);
        self.by_age.push(&mut self.entries, at, age);
        self.by_session.entry(session).or_default().push(&mut self.entries, at, session_links);
        self.make_room(now.at);
    }

    pub(super) fn get(&mut self, ticket: TicketId, now: Instant) -> Option<&SessionRecord> {
        let at = self.live(ticket, now)?;
        self.entries.get(at).map(|entry| &entry.record)
    }

    pub(super) fn take(
        &mut self,
        ticket: TicketId,
        seen: &SessionRecord,
        next: (TicketId, SessionRecord),
        now: Moment,
    ) -> Taken {
        let Some(at) = self.live(ticket, now.at) else { return Taken::No };
        match self.entries.get(at) {
            Some(entry) if entry.record == *seen => {}
            Some(entry) => return Taken::Changed(entry.record.clone()),
            None => return Taken::No,
        }
        let (successor, record) = next;
        self.by_ticket.remove(&ticket);
        self.name(successor, at);
        let until = now.until(record.expires);
        self.replace(at, record, until);
        if let Some(entry) = self.entries.get_mut(at) {
            entry.ticket = successor;
        }
        self.by_age.unlink(&mut self.entries, at, age);
        self.by_age.push(&mut self.entries, at, age);
        Taken::Yes
    }

    pub(super) fn update(&mut self, ticket: TicketId, record: SessionRecord, now: Moment) -> bool {
        let Some(at) = self.live(ticket, now.at) else { return false };
        if self.revoked.contains(record.session, now.at) {
            return false;
        }
        let until = now.until(record.expires);
        let until = self.entries.get(at).map_or(until, |entry| entry.until.min(until));
        self.replace(at, record, until);
        true
    }

    pub(super) fn revoke(&mut self, session: SessionId, lifetime: Duration, now: Moment) -> usize {
        self.revoked.insert(session, now.after(lifetime), now.at);
        let mut live = 0;
        while let Some(at) = self.by_session.get(&session).and_then(|list| list.first) {
            live += usize::from(!self.is_expired(at, now.at));
            self.remove_at(at);
        }
        live
    }

    /// Looks at every entry.
    pub(super) fn remove_expired(&mut self, now: Instant) -> usize {
        let before = self.len();
        self.revoked.remove_expired(now);
        self.earliest = None;
        self.since_sweep = 0;
        let mut next = self.by_age.first;
        while let Some(at) = next {
            let Some(entry) = self.entries.get(at) else { break };
            next = entry.age.after;
            let until = entry.until;
            if until <= now {
                self.remove_at(at);
            } else {
                self.note_expiry(until);
            }
        }
        before - self.len()
    }

    /// Where a ticket is that has not expired. One that has is removed.
    fn live(&mut self, ticket: TicketId, now: Instant) -> Option<u32> {
        let at = *self.by_ticket.get(&ticket)?;
        if self.is_expired(at, now) {
            self.remove_at(at);
            return None;
        }
        Some(at)
    }

    fn is_expired(&self, at: u32, now: Instant) -> bool {
        self.entries.get(at).is_none_or(|entry| entry.until <= now)
    }

    /// The oldest are nearly always the first to expire, so a look or two at that end keeps the table free of
    /// the dead. Where lifetimes differ, the others are looked for once for every 16th part of the capacity
    /// that has been put in.
    fn make_room(&mut self, now: Instant) {
        for _ in 0..2 {
            match self.by_age.first {
                Some(oldest) if self.is_expired(oldest, now) => self.remove_at(oldest),
                _ => break,
            }
        }
        let dead = self.earliest.is_some_and(|earliest| earliest <= now);
        if dead && self.len() > self.capacity && self.since_sweep >= self.capacity / 16 {
            self.remove_expired(now);
        }
        if let Some(oldest) = self.by_age.first.filter(|_| self.len() > self.capacity) {
            self.remove_at(oldest);
        }
    }

    /// Puts a record in the place of another, which is wiped there.
    fn replace(&mut self, at: u32, record: SessionRecord, until: Instant) {
        self.note_expiry(until);
        let Some(entry) = self.entries.get_mut(at) else { return };
        let (before, after) = (entry.record.session, record.session);
        (entry.record, entry.until) = (record, until);
        if before != after {
            self.leave_session(before, at);
            self.by_session.entry(after).or_default().push(&mut self.entries, at, session_links);
        }
    }

    /// Gives an entry its name. No two tickets have the same, but that is for the caller to see to; the other
    /// goes.
    fn name(&mut self, ticket: TicketId, at: u32) {
        if let Some(other) = self.by_ticket.insert(ticket, at) {
            self.drop_unnamed(other);
        }
    }

    fn remove_at(&mut self, at: u32) {
        if let Some(entry) = self.entries.get(at) {
            self.by_ticket.remove(&entry.ticket);
            self.drop_unnamed(at);
        }
    }

    fn drop_unnamed(&mut self, at: u32) {
        let Some(session) = self.entries.get(at).map(|entry| entry.record.session) else { return };
        self.by_age.unlink(&mut self.entries, at, age);
        self.leave_session(session, at);
        self.entries.remove(at);
    }

    fn leave_session(&mut self, session: SessionId, at: u32) {
        if let hash_map::Entry::Occupied(mut list) = self.by_session.entry(session) {
            list.get_mut().unlink(&mut self.entries, at, session_links);
            if list.get().is_empty() {
                list.remove();
            }
        }
    }

    fn note_expiry(&mut self, until: Instant) {
        self.earliest = Some(self.earliest.map_or(until, |earliest| earliest.min(until)));
    }
}

fn age(entry: &mut Entry) -> &mut Links {
    &mut entry.age
}

fn session_links(entry: &mut Entry) -> &mut Links {
    &mut entry.session
}
