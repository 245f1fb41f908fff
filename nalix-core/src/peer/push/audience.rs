//! Subscribers that outlive connections.

use std::sync::Arc;

use super::{listener::Listener, mailbox::Queue, subscription::Subscription, table::Pushes};
use crate::packet::Push;

/// Those who take the peer's one-way packets, over one connection after the other: subscribed once, they are given what comes
/// on whichever connection has been told of them. Cheap to clone; all clones are the same.
///
/// Nobody must give one audience to two connections at a time whose packets are to stay apart.
#[derive(Debug, Clone)]
pub struct Audience {
    pushes: Arc<Pushes>,
}

impl Audience {
    /// With nobody in it.
    pub fn new() -> Self {
        Self { pushes: Arc::new(Pushes::new()) }
    }

    /// As [`Connection::subscribe_with`](crate::Connection::subscribe_with), until [`Audience::end`].
    pub fn subscribe_with<T: Push>(&self, queue: Queue) -> Subscription<T> {
        Subscription::new(&self.pushes, queue)
    }

    /// As [`Connection::on`](crate::Connection::on), until [`Audience::end`].
    pub fn on<T: Push>(&self, f: impl FnMut(Arc<T>) + Send + 'static) -> Listener {
        Listener::new(&self.pushes, f)
    }

    /// How many packets have come that nobody took, over all connections.
    pub fn unclaimed(&self) -> u64 {
        self.pushes.unclaimed()
    }

    /// Ends every subscription, and refuses further ones: no connection will come any more.
    pub fn end(&self) {
        self.pushes.end();
    }

    pub(in crate::peer) fn pushes(&self) -> &Arc<Pushes> {
        &self.pushes
    }
}

impl Default for Audience {
    fn default() -> Self {
        Self::new()
    }
}
