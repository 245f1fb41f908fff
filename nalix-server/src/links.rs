//! Links of a server, in the handshake or open.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use nalix_core::Connection;
use tokio::sync::{Semaphore, SemaphorePermit, watch};

use crate::{
    Hub,
    group::leave_all,
    places::{Place, Places, WhenFull},
};

/// How many links there are, and how many there may be.
#[derive(Debug)]
pub(crate) struct Links {
    hub: Hub,
    /// Links whose task is alive, in the handshake or open.
    alive: watch::Sender<usize>,
    max: usize,
    /// Those of open connections, if one may have to go for another.
    places: Option<Places>,
    refused: AtomicUsize,
    /// Sessions without a link, for which another may come in.
    away: AtomicUsize,
    /// For links that are being told why they are turned away.
    courtesies: Semaphore,
}

impl Links {
    pub(crate) fn new(hub: Hub, max: usize, when_full: WhenFull) -> Self {
        let places = match when_full {
            WhenFull::Refuse => None,
            WhenFull::EvictAnonymous => Some(Places::new(max)),
        };
        Self {
            hub,
            alive: watch::Sender::new(0),
            max,
            places,
            refused: AtomicUsize::new(0),
            away: AtomicUsize::new(0),
            courtesies: Semaphore::new(MAX_COURTESIES),
        }
    }

    /// How many there may be.
    pub(crate) fn max(&self) -> usize {
        self.max
    }

    /// Counts a link in, until the guard is dropped. `None` if there are too many.
    pub(crate) fn enter(self: &Arc<Self>) -> Option<Present> {
        // Whoever has to go for it does so when its handshake is done; until then it counts among the handshakes.
        let max = if self.places.is_some() { usize::MAX } else { self.max };
        let max = max.saturating_add(self.away.load(Ordering::Relaxed));
        let entered = self.alive.send_if_modified(|alive| {
            let room = *alive < max;
            *alive += usize::from(room);
            room
        });
        if entered {
            return Some(Present {
                links: Arc::clone(self),
                connection: None,
                place: None,
                away: Arc::default(),
            });
        }
        self.refuse();
        None
    }

    /// Leave to tell a link why it is turned away. It takes time if the peer does not listen, and those who were turned
    /// away are not to hold more links than those who were let in.
    pub(crate) fn courtesy(&self) -> Option<SemaphorePermit<'_>> {
        self.courtesies.try_acquire().ok()
    }

    /// Links that are open or in the handshake.
    pub(crate) fn alive(&self) -> usize {
        *self.alive.borrow()
    }

    /// Links that were refused since there were too many.
    pub(crate) fn refused(&self) -> usize {
        self.refused.load(Ordering::Relaxed)
    }

    /// Waits until no link is left.
    pub(crate) async fn empty(&self) {
        let mut alive = self.alive.subscribe();
        // The sender lives as long as `self`.
        drop(alive.wait_for(|&alive| alive == 0).await);
    }

    fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
        self.hub.full();
    }
}

/// One link's place. Dropping it frees the place, however the link's task ends.
#[derive(Debug)]
pub(crate) struct Present {
    links: Arc<Links>,
    connection: Option<Connection>,
    place: Option<Place>,
    away: Arc<AtomicBool>,
}

/// Whether a session has a link, for its [`Present`].
#[derive(Debug)]
pub(crate) struct Presence {
    links: Arc<Links>,
    away: Arc<AtomicBool>,
}

impl Presence {
    /// Whether it has one from now on.
    pub(crate) fn set(&self, there: bool) {
        let before = self.away.swap(!there, Ordering::Relaxed);
        match (before, there) {
            (false, false) => drop(self.links.away.fetch_add(1, Ordering::Relaxed)),
            (true, true) => drop(self.links.away.fetch_sub(1, Ordering::Relaxed)),
            _ => {}
        }
    }
}

impl Present {
    /// Says whether its session has a link.
    pub(crate) fn presence(&self) -> Presence {
        Presence { links: Arc::clone(&self.links), away: Arc::clone(&self.away) }
    }

    /// The handshake is done: takes a place among the open connections, somebody else's if there is none left. `false` if
    /// nobody can go for it.
    pub(crate) fn take_place(&mut self) -> bool {
        let Some(places) = &self.links.places else { return true };
        self.place = places.take(&self.links.hub);
        if self.place.is_none() {
            self.links.refuse();
        }
        self.place.is_some()
    }

    /// It has a place, and its connection is there.
    pub(crate) fn open(&mut self, connection: Connection) {
        self.links.hub.enter(connection.clone());
        // Behind that, since whoever looks for one to close looks for it in the hub.
        if let (Some(places), Some(place)) = (&self.links.places, &self.place) {
            places.note(&connection, place);
        }
        self.connection = Some(connection);
    }

    /// The connection has ended, and what is left to do for it may take a while.
    pub(crate) fn leave_groups(&self) {
        self.connection.as_ref().map(leave_all);
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        self.presence().set(true);
        if let Some(connection) = &self.connection {
            self.links.hub.leave(connection);
        }
        if let (Some(places), Some(place)) = (&self.links.places, &self.place) {
            places.give_back(place);
        }
        self.links.alive.send_modify(|alive| *alive -= 1);
        self.links.hub.not_full();
    }
}

/// How many links are told at once why they are turned away.
const MAX_COURTESIES: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_one_at_the_limit_admits_exactly_one() {
        let links = Arc::new(Links::new(Hub::new(1), 2, WhenFull::Refuse));
        let first = links.enter();
        let second = links.enter();
        assert!(first.is_some() && second.is_some());
        assert!(links.enter().is_none());
        drop(first);
        let third = links.enter();
        assert!(third.is_some());
        assert!(links.enter().is_none());
        drop((second, third));
        assert_eq!((links.alive(), links.refused()), (0, 2));
    }
}
