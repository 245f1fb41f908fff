//! What handles ask of the driver besides sending.

use std::{sync::atomic::Ordering, time::Duration};

use super::shared::Shared;
use crate::status::CloseReason;

/// What handles ask of the driver.
#[derive(Debug, Default)]
pub(crate) struct Commands {
    pub(crate) close: Option<CloseReason>,
    pub(crate) drain: Option<Duration>,
    pub(crate) abort: bool,
    pub(crate) serve: bool,
}

impl Shared {
    /// Asks the driver to say goodbye and close; from now on nothing new is taken. The first reason counts.
    pub(crate) fn request_close(&self, reason: CloseReason) {
        let mut wakers = Vec::new();
        self.with(|state| {
            if state.gone().is_none() {
                state.closing = Some(reason.clone());
                state.commands.get_or_insert_default().close = Some(reason);
                state.waiters.all(&mut wakers);
            }
        });
        for waker in wakers {
            waker.wake();
        }
    }

    /// Asks the driver to finish what runs, to start nothing new, and to close within the given time.
    pub(crate) fn request_drain(&self, within: Duration) {
        self.with(|state| {
            state.commands.get_or_insert_default().drain = Some(within);
        });
    }

    /// Asks the driver to end at once.
    pub(crate) fn request_abort(&self) {
        self.with(|state| {
            state.commands.get_or_insert_default().abort = true;
        });
    }

    /// The peer has said that it will close soon.
    pub(crate) fn peer_drains(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Whether the peer has said that it will close soon.
    pub(crate) fn blame_peer(&self) {
        self.at_fault.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_peer_at_fault(&self) -> bool {
        self.at_fault.load(Ordering::Relaxed)
    }

    pub(crate) fn is_peer_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Tells the driver that its router has been replaced.
    pub(crate) fn router_changed(&self) {
        self.with(|state| {
            state.commands.get_or_insert_default().serve = true;
        });
    }
}
