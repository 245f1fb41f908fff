//! How far a connection is on its way to its end, for those who wait for that.

use std::time::Duration;

use tokio::time::Instant;

use super::{kept::Detached, shared::Shared};
use crate::status::CloseReason;

/// What those who wait are told.
#[derive(Debug, Default)]
pub(super) struct Life {
    /// This side has begun to drain.
    pub(super) drain: Option<Notice>,
    /// The peer has begun to drain.
    pub(super) peer_drain: Option<Notice>,
    /// There is no link.
    pub(super) detached: Option<Detached>,
    pub(super) links_lost: u64,
    /// It is over.
    pub(super) closed: Option<CloseReason>,
}

/// Somebody will close soon.
#[derive(Debug, Clone, Copy)]
pub(super) struct Notice {
    /// When at the latest. `None`: that is too far away to tell.
    pub(super) until: Option<Instant>,
}

impl Shared {
    /// This side has begun to drain.
    pub(crate) fn drains(&self, until: Option<Instant>) {
        self.life.send_modify(|life| life.drain = Some(Notice { until }));
    }

    /// The peer has said that it will close within this time.
    pub(crate) fn peer_drains(&self, within: Duration) {
        let until = Instant::now().checked_add(within);
        self.life.send_modify(|life| life.peer_drain = Some(Notice { until }));
    }

    /// Whether the peer has said that it will close soon.
    pub(crate) fn is_peer_draining(&self) -> bool {
        self.life.borrow().peer_drain.is_some()
    }

    /// When the peer will close at the latest, if it has said so.
    pub(crate) fn peer_drain_deadline(&self) -> Option<Instant> {
        self.life.borrow().peer_drain?.until
    }

    /// Waits until one of them is the case.
    pub(super) async fn reached(&self, is: impl FnMut(&Life) -> bool) {
        let mut life = self.life.subscribe();
        // The sender lives as long as `self`.
        drop(life.wait_for(is).await);
    }
}
