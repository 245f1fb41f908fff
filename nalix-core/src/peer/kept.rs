//! Sessions that outlive their links, as the handles see them.

use std::{
    net::SocketAddr,
    sync::{PoisonError, atomic::Ordering},
};

use tokio::time::Instant;

use super::{
    handle::Connection,
    shared::{Setup, Shared},
};
use crate::{error::ProtocolError, session::Outbound, status::CloseReason};

/// The peer's address, and ours.
pub(super) type Addresses = (Option<SocketAddr>, Option<SocketAddr>);

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
    /// The link is gone, and with it what the driver had at hand.
    pub(super) fn without_link(&self) {
        let mut state = self.lock();
        state.direct = None;
        state.unsent = 0;
    }

    /// Goes on over the link that `setup` and `out` were made for. The peer has handled `received` bytes; what comes first is
    /// put into `writing`. Returns `None`, and changes nothing, if it needs what is not there any more.
    ///
    /// It returns how many bytes the link has been given or is about to be.
    pub(crate) fn go_on(
        &self,
        setup: &mut Setup,
        out: Outbound,
        received: u64,
        writing: &mut Vec<u8>,
    ) -> Option<u64> {
        let mut state = self.lock();
        if !state.out.can_go_on(received) {
            return None;
        }
        // Before the direct way is there: what comes first goes first.
        self.writing.store(true, Ordering::Release);
        *writing = state.out.go_on(out, received);
        state.direct = setup.direct.take();
        state.awake = true;
        // What is sent again may have been executed.
        let position = state.out.position() - state.written;
        drop(state);
        *self.addresses.write().unwrap_or_else(PoisonError::into_inner) = (setup.peer_addr, setup.local_addr);
        Some(position)
    }

    /// Bytes that are kept for the peer: they wait to be written, or to be acknowledged.
    pub(crate) fn kept_len(&self) -> usize {
        let state = self.lock();
        let written = state.unsent + state.out.log_len();
        written + state.out.waiting_len() + state.flows.unsent() + state.latest.bytes()
    }

    /// Whether everything behind this many bytes of our frames can be sent again.
    pub(crate) fn can_go_on(&self, received: u64) -> bool {
        self.lock().out.can_go_on(received)
    }

    /// The peer's address, and ours.
    pub(crate) fn addresses(&self) -> Addresses {
        *self.addresses.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing goes on here for now.
    pub(crate) fn shrink_log(&self) {
        self.lock().out.shrink_log();
    }

    /// The peer has handled this many bytes of frames.
    pub(crate) fn acknowledge(&self, received: u64) -> Result<(), ProtocolError> {
        self.lock().out.acknowledge(received)
    }

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
