//! One timer for everything that a connection waits for.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::time::{Instant, Sleep, sleep_until};

/// Fires at the earliest instant it has been told of. Coarse on purpose: a call that is answered leaves its deadline
/// behind, which costs one early look and no bookkeeping per call.
#[derive(Debug, Default)]
pub(super) struct Timer {
    at: Option<Instant>,
    /// Made when it is first needed; most idle connections never do.
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Timer {
    /// Fires at `at` or earlier.
    pub(super) fn arm(&mut self, at: Instant) {
        if self.at.is_some_and(|known| known <= at) {
            return;
        }
        self.at = Some(at);
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

    /// Whether it has fired; it is disarmed then.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> bool {
        if self.at.is_none() {
            return false;
        }
        let Some(sleep) = &mut self.sleep else { return false };
        let fired = sleep.as_mut().poll(cx) == Poll::Ready(());
        if fired {
            self.at = None;
        }
        fired
    }
}

const FAR: Duration = Duration::from_secs(24 * 60 * 60);
