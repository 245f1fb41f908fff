//! One group: its members, and those who watch them come and go.
//!
//! Locks are taken in this order, and nothing of the user's runs under any of them: the memberships of a connection, the
//! group, the queue of a subscription.

use std::{
    any::Any,
    collections::HashMap,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    task::Waker,
};

use nalix_core::{Connection, ConnectionId};

use super::{
    Join, Member, Members, PresenceEvent, key::Key, memberships::Memberships, presence::Queue, table::Groups,
};
use crate::sync::{Guard, Mutex};

pub(super) type Metadata = Arc<dyn Any + Send + Sync>;

pub(super) struct Room {
    pub(super) key: Arc<dyn Key>,
    pub(super) groups: Arc<Groups>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Whoever sends takes a share of the list; it is copied if it changes meanwhile.
    members: Arc<Vec<Member>>,
    /// Where each is in the list.
    places: HashMap<ConnectionId, usize>,
    watchers: Vec<Arc<Queue>>,
}

impl fmt::Debug for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group").field("members", &self.members().len()).finish_non_exhaustive()
    }
}

impl Room {
    pub(super) fn new(key: Arc<dyn Key>, groups: Arc<Groups>) -> Self {
        Self { key, groups, state: Mutex::default() }
    }

    /// Lets a connection in. What it is in and who is in here change together, under both locks: whoever takes the
    /// connection out of all its groups finds this one among them, or comes first, and then it is not let in.
    pub(super) fn join(self: &Arc<Self>, connection: &Connection, metadata: Option<Metadata>) -> Join {
        if !self.groups.registry.contains(connection.id()) {
            return Join::Closed;
        }
        let memberships = connection.get_or_set(Memberships::default);
        let mut rooms = memberships.lock();
        // It leaves all groups after it has closed.
        if connection.close_reason().is_some() {
            return Join::Closed;
        }
        let mut after = After::default();
        let mut state = self.lock();
        let joined = match state.places.get(&connection.id()).copied() {
            Some(at) => {
                if let Some(metadata) = metadata {
                    after.metadata = Arc::make_mut(&mut state.members)[at].replace(metadata);
                }
                Join::Already
            }
            None if rooms.len() >= self.groups.max_per_connection => {
                after.metadata = metadata;
                Join::TooMany
            }
            None => {
                let member = Member::new(connection.clone(), metadata);
                let at = state.members.len();
                state.places.insert(connection.id(), at);
                Arc::make_mut(&mut state.members).push(member.clone());
                state.tell(PresenceEvent::Joined(member), &mut after);
                rooms.push(Arc::clone(self));
                Join::Joined
            }
        };
        drop(state);
        drop(rooms);
        after.run();
        joined
    }

    /// Lets a connection out. Returns whether it was in.
    pub(super) fn leave(&self, connection: &Connection) -> bool {
        let Some(memberships) = connection.get::<Memberships>() else { return false };
        let mut rooms = memberships.lock();
        let place = rooms.iter().position(|room| std::ptr::eq(Arc::as_ptr(room), self));
        let room = place.map(|place| rooms.swap_remove(place));
        let after = room.as_ref().map(|_| self.remove(connection.id()));
        drop(rooms);
        if let Some(after) = after {
            after.run();
        }
        room.is_some()
    }

    /// Takes a member out. Its connection's memberships must be locked, or never get this group again.
    pub(super) fn remove(&self, id: ConnectionId) -> After {
        let mut after = After::default();
        let mut state = self.lock();
        if let Some(at) = state.places.remove(&id) {
            let members = Arc::make_mut(&mut state.members);
            let member = members.swap_remove(at);
            let moved = members.get(at).map(Member::id);
            if let Some(moved) = moved {
                state.places.insert(moved, at);
            }
            state.tell(PresenceEvent::Left(member), &mut after);
        }
        after
    }

    /// Tells that a member has lost its link, or has another.
    pub(super) fn tell_away(&self, id: ConnectionId, there: bool) -> After {
        let mut after = After::default();
        let state = self.lock();
        if let Some(&at) = state.places.get(&id) {
            let member = state.members[at].clone();
            let event = if there { PresenceEvent::Back(member) } else { PresenceEvent::Away(member) };
            state.tell(event, &mut after);
        }
        after
    }

    /// Gives a member other metadata. Returns whether it is one.
    pub(super) fn set_metadata(&self, id: ConnectionId, metadata: Metadata) -> bool {
        let mut state = self.lock();
        let Some(at) = state.places.get(&id).copied() else { return false };
        let old = Arc::make_mut(&mut state.members)[at].replace(metadata);
        drop(state);
        drop(old);
        true
    }

    pub(super) fn members(&self) -> Members {
        Members(Arc::clone(&self.lock().members))
    }

    pub(super) fn member(&self, id: ConnectionId) -> Option<Member> {
        let state = self.lock();
        state.places.get(&id).map(|&at| state.members[at].clone())
    }

    pub(super) fn contains(&self, id: ConnectionId) -> bool {
        self.lock().places.contains_key(&id)
    }

    /// Lets a queue have every change from now on. Returns the members as of now.
    pub(super) fn watch(&self, queue: Arc<Queue>) -> Members {
        let mut state = self.lock();
        state.watchers.push(queue);
        Members(Arc::clone(&state.members))
    }

    pub(super) fn unwatch(&self, queue: &Arc<Queue>) {
        self.lock().watchers.retain(|other| !Arc::ptr_eq(other, queue));
    }

    fn lock(&self) -> Guard<'_, State> {
        self.state.lock()
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // The key's `Hash` and `Eq` are the user's, and this may run since they have panicked.
        caught("key", || self.groups.forget(&*self.key, self));
    }
}

impl State {
    fn tell(&self, event: PresenceEvent, after: &mut After) {
        for queue in &self.watchers {
            after.wakers.extend(queue.push(event.clone(), &mut after.missed));
        }
        // It may be the last to hold the member's metadata.
        after.event = Some(event);
    }
}

/// What is left to do when the locks are gone: to wake, and to drop. That runs code of the user's.
#[derive(Default)]
pub(super) struct After {
    wakers: Vec<Waker>,
    event: Option<PresenceEvent>,
    missed: Vec<PresenceEvent>,
    metadata: Option<Metadata>,
}

impl After {
    /// Each by itself, since a panic of one must not keep another from its turn.
    pub(super) fn run(self) {
        let Self { wakers, event, missed, metadata } = self;
        for waker in wakers {
            caught("waker", || waker.wake());
        }
        for event in missed.into_iter().chain(event) {
            caught("metadata", || drop(event));
        }
        caught("metadata", || drop(metadata));
    }
}

/// Runs code of the user's that belongs to nobody who could be told of its panic.
fn caught(what: &str, f: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(f)).is_err() {
        tracing::error!(what, "what a group was given has panicked");
    }
}
