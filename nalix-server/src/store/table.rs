//! The tickets of a [`MemoryStore`](super::MemoryStore), by name, by session and by age.

use std::{
    collections::{HashMap, hash_map},
    time::SystemTime,
};

use nalix_core::handshake::{SessionId, SessionRecord, TicketId};

use super::{
    hash::NameHash,
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
    earliest: Option<SystemTime>,
    /// How many were put in since all entries were looked at.
    since_sweep: usize,
}

#[derive(Debug)]
struct Entry {
    ticket: TicketId,
    record: SessionRecord,
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
        }
    }

    pub(super) fn len(&self) -> usize {
        self.by_ticket.len()
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    pub(super) fn put(&mut self, ticket: TicketId, record: SessionRecord, now: SystemTime) {
        if self.capacity == 0 {
            return;
        }
        self.since_sweep += 1;
        self.note_expiry(record.expires);
        let session = record.session;
        let entry = Entry { ticket, record, age: Links::default(), session: Links::default() };
        let at = self.entries.insert(entry);
        self.name(ticket, at);
        self.by_age.push(&mut self.entries, at, age);
        self.by_session.entry(session).or_default().push(&mut self.entries, at, session_links);
        self.make_room(now);
    }

    pub(super) fn get(&mut self, ticket: TicketId, now: SystemTime) -> Option<&SessionRecord> {
        let at = self.live(ticket, now)?;
        self.entries.get(at).map(|entry| &entry.record)
    }

    pub(super) fn take(
        &mut self,
        ticket: TicketId,
        next: (TicketId, SessionRecord),
        now: SystemTime,
    ) -> bool {
        let Some(at) = self.by_ticket.remove(&ticket) else { return false };
        if self.is_expired(at, now) {
            self.drop_unnamed(at);
            return false;
        }
        let (successor, record) = next;
        self.name(successor, at);
        self.replace(at, record);
        if let Some(entry) = self.entries.get_mut(at) {
            entry.ticket = successor;
        }
        self.by_age.unlink(&mut self.entries, at, age);
        self.by_age.push(&mut self.entries, at, age);
        true
    }

    pub(super) fn update(&mut self, ticket: TicketId, record: SessionRecord, now: SystemTime) -> bool {
        let Some(at) = self.live(ticket, now) else { return false };
        self.replace(at, record);
        true
    }

    pub(super) fn revoke(&mut self, session: SessionId, now: SystemTime) -> usize {
        let mut live = 0;
        while let Some(at) = self.by_session.get(&session).and_then(|list| list.first) {
            live += usize::from(!self.is_expired(at, now));
            self.remove_at(at);
        }
        live
    }

    /// Looks at every entry.
    pub(super) fn remove_expired(&mut self, now: SystemTime) -> usize {
        let before = self.len();
        self.earliest = None;
        self.since_sweep = 0;
        let mut next = self.by_age.first;
        while let Some(at) = next {
            let Some(entry) = self.entries.get(at) else { break };
            next = entry.age.after;
            let expires = entry.record.expires;
            if expires <= now {
                self.remove_at(at);
            } else {
                self.note_expiry(expires);
            }
        }
        before - self.len()
    }

    /// Where a ticket is that has not expired. One that has is removed.
    fn live(&mut self, ticket: TicketId, now: SystemTime) -> Option<u32> {
        let at = *self.by_ticket.get(&ticket)?;
        if self.is_expired(at, now) {
            self.remove_at(at);
            return None;
        }
        Some(at)
    }

    fn is_expired(&self, at: u32, now: SystemTime) -> bool {
        self.entries.get(at).is_none_or(|entry| entry.record.is_expired(now))
    }

    /// The oldest are nearly always the first to expire, so a look or two at that end keeps the table free of
    /// the dead. Where lifetimes differ, the others are looked for once for every 16th part of the capacity
    /// that has been put in.
    fn make_room(&mut self, now: SystemTime) {
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
    fn replace(&mut self, at: u32, record: SessionRecord) {
        self.note_expiry(record.expires);
        let Some(entry) = self.entries.get_mut(at) else { return };
        let (before, after) = (entry.record.session, record.session);
        entry.record = record;
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

    fn note_expiry(&mut self, expires: SystemTime) {
        self.earliest = Some(self.earliest.map_or(expires, |earliest| earliest.min(expires)));
    }
}

fn age(entry: &mut Entry) -> &mut Links {
    &mut entry.age
}

fn session_links(entry: &mut Entry) -> &mut Links {
    &mut entry.session
}
