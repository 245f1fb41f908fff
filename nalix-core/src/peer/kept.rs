//! Sessions that outlive their links, as the handles see them.

use tokio::time::Instant;

use super::{handle::Connection, shared::Shared};
use crate::status::CloseReason;

/// A connection that has lost its link and waits for another.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Detached {
    /// Since when.
    pub since: std::time::Instant,
    /// Why the link was lost.
    pub cause: CloseReason,
    /// How many bytes of the peer's frames have been handled.
    pub(crate) received: u64,
}

impl Shared {
    /// The link is lost. Nothing is written directly from now on.
    pub(crate) fn detach(&self, cause: CloseReason, received: u64) {
        self.without_link();
        let since = Instant::now().into_std();
        let detached = Detached { since, cause, received };
        self.life.send_modify(|life| {
            life.detached = Some(detached);
            life.links_lost += 1;
        });
    }

    /// There is a link again.
    pub(crate) fn attached(&self) {
        self.life.send_modify(|life| life.detached = None);
    }

    pub(crate) fn detached(&self) -> Option<Detached> {
        self.life.borrow().detached.clone()
    }
}

impl Connection {
    /// Whether the connection waits for another link since it has lost one, and why. Only where both sides keep what is not
    /// acknowledged. Calls, streams and handlers go on meanwhile, as far as they need nothing from the peer.
    pub fn detached(&self) -> Option<Detached> {
        self.shared.detached()
    }

    /// Waits until the connection has lost its link or has ended, and returns `None` if it has ended. Cancel safe.
    pub async fn until_detached(&self) -> Option<Detached> {
        self.shared.reached(|life| life.detached.is_some() || life.closed.is_some()).await;
        if self.close_reason().is_some() { None } else { self.detached() }
    }

    /// Waits until the connection has a link or has ended, and returns whether it has one. Cancel safe.
    pub async fn until_attached(&self) -> bool {
        self.shared.reached(|life| life.detached.is_none() || life.closed.is_some()).await;
        self.close_reason().is_none()
    }

    /// Gives the link up, as if it had been lost: for who knows before the system does that it leads nowhere, since the network
    /// has changed. Nothing happens on a connection that ends with its link.
    pub fn detach(&self) {
        self.shared.request_detach();
    }

    /// How many links the connection has lost.
    pub fn links_lost(&self) -> u64 {
        self.shared.life.borrow().links_lost
    }
}
