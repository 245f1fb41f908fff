//! The server's connections.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use nalix_core::{Connection, ConnectionId};
use tokio::sync::{Semaphore, SemaphorePermit, watch};

/// Every connection of a server, from the moment its link is there.
#[derive(Debug)]
pub(crate) struct Hub {
    open: Mutex<HashMap<ConnectionId, Connection>>,
    /// Links whose task is alive, in the handshake or open.
    alive: watch::Sender<usize>,
    max: usize,
    refused: AtomicUsize,
    /// For links that are being told why they are turned away.
    courtesies: Semaphore,
}

impl Hub {
    pub(crate) fn new(max: usize) -> Self {
        Self {
            open: Mutex::default(),
            alive: watch::Sender::new(0),
            max,
            refused: AtomicUsize::new(0),
            courtesies: Semaphore::new(MAX_COURTESIES),
        }
    }

    /// Counts a link in, until the guard is dropped. `None` if there are too many.
    pub(crate) fn enter(self: &Arc<Self>) -> Option<Present> {
        let entered = self.alive.send_if_modified(|alive| {
            let room = *alive < self.max;
            *alive += usize::from(room);
            room
        });
        if entered {
            return Some(Present { hub: Arc::clone(self), id: None });
        }
        self.refused.fetch_add(1, Ordering::Relaxed);
        None
    }

    /// Leave to tell a link why it is turned away. It takes time if the peer does not listen, and those who were turned
    /// away are not to hold more links than those who were let in.
    pub(crate) fn courtesy(&self) -> Option<SemaphorePermit<'_>> {
        self.courtesies.try_acquire().ok()
    }

    /// Open connections.
    pub(crate) fn count(&self) -> usize {
        self.lock().len()
    }

    /// Links that are open or in the handshake.
    pub(crate) fn alive(&self) -> usize {
        *self.alive.borrow()
    }

    /// Links that were refused since there were too many.
    pub(crate) fn refused(&self) -> usize {
        self.refused.load(Ordering::Relaxed)
    }

    /// The open connections as of now.
    pub(crate) fn connections(&self) -> Vec<Connection> {
        self.lock().values().cloned().collect()
    }

    pub(crate) fn get(&self, id: ConnectionId) -> Option<Connection> {
        self.lock().get(&id).cloned()
    }

    /// Waits until no link is left.
    pub(crate) async fn empty(&self) {
        let mut alive = self.alive.subscribe();
        // The sender lives as long as `self`.
        drop(alive.wait_for(|&alive| alive == 0).await);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<ConnectionId, Connection>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One link's place in the hub. Dropping it frees the place, however the link's task ends.
#[derive(Debug)]
pub(crate) struct Present {
    hub: Arc<Hub>,
    id: Option<ConnectionId>,
}

impl Present {
    /// The handshake is done.
    pub(crate) fn open(&mut self, connection: Connection) {
        self.id = Some(connection.id());
        self.hub.lock().insert(connection.id(), connection);
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.hub.lock().remove(&id);
        }
        self.hub.alive.send_modify(|alive| *alive -= 1);
    }
}

/// How many links are told at once why they are turned away.
const MAX_COURTESIES: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_one_at_the_limit_admits_exactly_one() {
        let hub = Arc::new(Hub::new(2));
        let first = hub.enter();
        let second = hub.enter();
        assert!(first.is_some() && second.is_some());
        assert!(hub.enter().is_none());
        drop(first);
        let third = hub.enter();
        assert!(third.is_some());
        assert!(hub.enter().is_none());
        drop((second, third));
        assert_eq!((hub.alive(), hub.refused()), (0, 2));
    }
}
