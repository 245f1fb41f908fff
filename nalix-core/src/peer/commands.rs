//! What handles ask of the driver besides sending.

use std::{sync::atomic::Ordering, task::Waker, time::Duration};

use tokio::sync::oneshot;

use super::{
    clock::ClockSample,
    rtt::Rtt,
    shared::{Shared, State},
};
use crate::status::CloseReason;

/// What handles ask of the driver.
#[derive(Debug, Default)]
pub(crate) struct Commands {
    pub(crate) close: Option<CloseReason>,
    pub(crate) drain: Option<Duration>,
    pub(crate) abort: bool,
    pub(crate) serve: bool,
    /// To give the link up.
    pub(crate) detach: bool,
    /// Another link is there.
    pub(crate) attach: bool,
    /// Those who want to know how long a ping takes.
    pub(crate) pings: Vec<oneshot::Sender<Duration>>,
    /// Those who want to know what time it is at the peer.
    pub(crate) times: Vec<oneshot::Sender<ClockSample>>,
}

impl Shared {
    /// Asks the driver to say goodbye and close; from now on nothing new is taken. The first reason counts.
    pub(crate) fn request_close(&self, reason: CloseReason) {
        let mut wakers = Vec::new();
        self.with(|state| {
            if state.gone().is_none() {
                state.close(reason, &mut wakers);
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

    /// Asks the driver to give the link up.
    pub(crate) fn request_detach(&self) {
        self.with(|state| {
            state.commands.get_or_insert_default().detach = true;
        });
    }

    /// Tells the driver that another link is there.
    pub(crate) fn request_attach(&self) {
        self.with(|state| {
            state.commands.get_or_insert_default().attach = true;
        });
    }

    /// Asks the driver to measure a round trip. The answer never comes if the connection ends before.
    pub(crate) fn request_ping(&self) -> oneshot::Receiver<Duration> {
        let (done, measured) = oneshot::channel();
        self.with(|state| {
            if state.closed().is_none() {
                state.commands.get_or_insert_default().pings.push(done);
            }
        });
        measured
    }

    /// The connection is closed for something that the peer must not do.
    pub(crate) fn blame_peer(&self) {
        self.at_fault.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_peer_at_fault(&self) -> bool {
        self.at_fault.load(Ordering::Relaxed)
    }

    /// A round trip has taken so long.
    pub(crate) fn measured(&self, took: Duration) {
        let mut state = self.lock();
        state.rtt = Some(Rtt::after(state.rtt, took));
    }

    /// What has been measured of round trips.
    pub(crate) fn rtt(&self) -> Option<Rtt> {
        self.lock().rtt
    }

    /// Whether anything of the application's has been put into the outbox since this was last asked.
    pub(crate) fn take_active(&self) -> bool {
        self.lock().out.take_active()
    }

    /// Tells the driver that its router has been replaced.
    pub(crate) fn router_changed(&self) {
        self.with(|state| {
            state.commands.get_or_insert_default().serve = true;
        });
    }
}

impl State {
    /// Takes nothing new from now on, and has the driver say goodbye. `wakers` are given those who wait, to be woken when the
    /// lock is gone.
    pub(super) fn close(&mut self, reason: CloseReason, wakers: &mut Vec<Waker>) {
        self.closing = Some(reason.clone());
        self.commands.get_or_insert_default().close = Some(reason);
        self.waiters.all(wakers);
    }

    /// How many one-way packets have been left out, of all kinds.
    pub(super) fn left_out_in_all(&self) -> u64 {
        self.left_out + self.latest.left_out()
    }
}
