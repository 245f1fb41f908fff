//! One timer for everything that a connection waits for.

use std::{
    future::Future,
    pin::{Pin, pin},
    task::Context,
    time::Duration,
};

use tokio::{
    task::coop::unconstrained,
    time::{Instant, Sleep, sleep_until},
};

/// Fires at the earliest instant it has been told of. Coarse on purpose: a call that is answered leaves its deadline
/// behind, which costs one early look and no bookkeeping per call.
#[derive(Debug, Default)]
pub(super) struct Timer {
    at: Option<Instant>,
    /// Made when it is first needed; most idle connections never do.
    sleep: Option<Pin<Box<Sleep>>>,
    /// Whether the sleep would wake the task if it fired now.
    watched: bool,
}

impl Timer {
    /// Fires at `at` or earlier.
    pub(super) fn arm(&mut self, at: Instant) {
        if self.at.is_some_and(|known| known <= at) {
            return;
        }
        self.at = Some(at);
        self.watched = false;
        // Looks again after a day at the latest: timers do not reach arbitrarily far.
        let at = match Instant::now().checked_add(FAR) {
            Some(far) => at.min(far),
            None => at,
        };
        match &mut self.sleep {
            Some(sleep) => sleep.as_mut().reset(at),
            None => self.sleep = Some(Box::pin(sleep_until(at))),
        }
    }

    /// To be told when the task's waker has changed.
    pub(super) fn unwatch(&mut self) {
        self.watched = false;
    }

    /// Whether it has fired; it is disarmed then. Much cheaper than polling the sleep, which most turns need not do.
    pub(super) fn fired(&mut self) -> bool {
        let fired = self.at.is_some() && self.sleep.as_ref().is_some_and(|sleep| sleep.is_elapsed());
        if fired {
            self.at = None;
        }
        fired
    }

    /// Has the task woken when it fires. To be called at the end of each turn: a sleep that has not been polled since
    /// it was set wakes nobody.
    pub(super) fn watch(&mut self, cx: &mut Context<'_>) {
        if self.watched || self.at.is_none() {
            return;
        }
        let Some(sleep) = &mut self.sleep else { return };
        self.watched = true;
        // Not to be put off because the turn has done a lot: it would not be asked again.
        if pin!(unconstrained(sleep.as_mut())).poll(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
    }
}

const FAR: Duration = Duration::from_secs(24 * 60 * 60);
