//! The server's links, from the moment they are there.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use nalix_core::Connection;
use tokio::sync::{Semaphore, SemaphorePermit, watch};

use crate::{Hub, group::leave_all};

/// How many links there are, and how many there may be.
#[derive(Debug)]
pub(crate) struct Links {
    hub: Hub,
    /// Links whose task is alive, in the handshake or open.
    alive: watch::Sender<usize>,
    max: usize,
    refused: AtomicUsize,
    /// For links that are being told why they are turned away.
    courtesies: Semaphore,
}

impl Links {
    pub(crate) fn new(hub: Hub, max: usize) -> Self {
        Self {
            hub,
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
            return Some(Present { links: Arc::clone(self), connection: None });
        }
        self.refused.fetch_add(1, Ordering::Relaxed);
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
}

/// One link's place. Dropping it frees the place, however the link's task ends.
#[derive(Debug)]
pub(crate) struct Present {
    links: Arc<Links>,
    connection: Option<Connection>,
}

impl Present {
    /// The handshake is done.
    pub(crate) fn open(&mut self, connection: Connection) {
        self.links.hub.enter(connection.clone());
        self.connection = Some(connection);
    }

    /// The connection has ended, and what is left to do for it may take a while.
    pub(crate) fn leave_groups(&self) {
        self.connection.as_ref().map(leave_all);
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        if let Some(connection) = &self.connection {
            self.links.hub.leave(connection);
        }
        self.links.alive.send_modify(|alive| *alive -= 1);
    }
}

/// How many links are told at once why they are turned away.
const MAX_COURTESIES: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_one_at_the_limit_admits_exactly_one() {
        let links = Arc::new(Links::new(Hub::new(1), 2));
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
