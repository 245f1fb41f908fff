//! Places of open connections, where the oldest anonymous one goes if there is none left.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use nalix_core::{Advice, CloseCode, CloseReason, Connection, ConnectionId};

use crate::{Hub, sync::Mutex};

/// What happens when a server has as many connections as it may:
/// [`ServerBuilder::when_full`](crate::ServerBuilder::when_full).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum WhenFull {
    /// One more is turned away. The default.
    #[default]
    Refuse,
    /// One more is let in, and the oldest anonymous one is closed for it: whose client has neither proved to have a key nor been
    /// named by [`Hub::identify`](crate::Hub::identify). If there is none, the new one is turned away.
    ///
    /// This happens when the handshake of the new one is done, so that nobody is closed for a link that says nothing.
    /// Those in the handshake do not count for
    /// [`max_connections`](crate::ServerBuilder::max_connections), but for
    /// [`max_handshakes`](crate::ServerBuilder::max_handshakes). Whoever is closed may take `close_timeout` to go.
    EvictAnonymous,
}

/// The places there are.
#[derive(Debug)]
pub(crate) struct Places {
    max: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    taken: usize,
    /// Those who came without a key, by age. Some have gone, or have been named since.
    anonymous: VecDeque<Anonymous>,
}

#[derive(Debug)]
struct Anonymous {
    id: ConnectionId,
    place: Place,
}

/// A place, until it is given to another or given back.
#[derive(Debug, Clone)]
pub(crate) struct Place(Arc<AtomicBool>);

impl Places {
    pub(crate) fn new(max: usize) -> Self {
        Self { max, state: Mutex::default() }
    }

    /// A free place, or that of the oldest anonymous connection, which is closed.
    pub(crate) fn take(&self, hub: &Hub) -> Option<Place> {
        let mut state = self.state.lock();
        let evicted = if state.taken < self.max {
            state.taken += 1;
            None
        } else {
            Some(state.evict(hub)?)
        };
        drop(state);
        if let Some(connection) = evicted {
            let reason =
                CloseReason::new(CloseCode::LimitExceeded, "the server is full, and others have come since");
            connection.close_with(reason.with_advice(Advice::Retry { after: Some(Duration::from_secs(1)) }));
        }
        Some(Place(Arc::new(AtomicBool::new(true))))
    }

    /// A connection with a place is there.
    pub(crate) fn note(&self, connection: &Connection, place: &Place) {
        if connection.peer_key().is_some() {
            return;
        }
        let mut state = self.state.lock();
        if state.anonymous.len() > 2 * state.taken + SLACK {
            state.anonymous.retain(|anonymous| anonymous.place.is_held());
        }
        state.anonymous.push_back(Anonymous { id: connection.id(), place: place.clone() });
    }

    pub(crate) fn give_back(&self, place: &Place) {
        if place.give() {
            self.state.lock().taken -= 1;
        }
    }
}

impl State {
    /// Takes the oldest anonymous connection's place. Whoever has got a name never loses it, and need not be looked at again.
    fn evict(&mut self, hub: &Hub) -> Option<Connection> {
        loop {
            let Anonymous { id, place } = self.anonymous.pop_front()?;
            let Some(connection) = hub.get(id) else {
                // It is about to give its place back, unless it has.
                continue;
            };
            if hub.identity_of(&connection).is_none() && place.give() {
                return Some(connection);
            }
        }
    }
}

impl Place {
    fn is_held(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Whether it was still held: of two who take it away, one gets it.
    fn give(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

/// How many who have gone are kept at least before they are looked for.
const SLACK: usize = 64;
