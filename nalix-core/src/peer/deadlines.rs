//! Of which deadlines the driver knows, and of which it has to be told.

use std::task::Waker;

use tokio::time::Instant;

use super::shared::{Shared, State};

impl Shared {
    /// Collects those whose deadline has passed, and returns the next deadline.
    pub(crate) fn expire(&self, now: Instant, wakers: &mut Vec<Waker>) -> Option<Instant> {
        let mut state = self.lock();
        let waiting = state.waiters.expire(now, wakers);
        let calls = state.calls.expire(now, wakers);
        let flows = state.flows.expire(now, wakers);
        state.known_deadline = [waiting, calls, flows].into_iter().flatten().min();
        state.known_deadline
    }
}

impl State {
    pub(super) fn has_commands(&self) -> bool {
        self.commands.is_some() || self.deadline.is_some()
    }

    /// Gives the calls that have a timeout their deadlines, and returns the earliest if it is news.
    pub(super) fn date_calls(&mut self) -> Option<Instant> {
        if !self.calls.has_undated() {
            return None;
        }
        let deadline = self.calls.date(Instant::now())?;
        if self.known_deadline.is_some_and(|known| known <= deadline) {
            return None;
        }
        self.known_deadline = Some(deadline);
        Some(deadline)
    }

    /// Tells the driver of a deadline.
    pub(super) fn note_deadline(&mut self, deadline: Instant) {
        if self.known_deadline.is_none_or(|known| deadline < known) {
            self.known_deadline = Some(deadline);
            self.deadline = Some(deadline);
        }
    }
}
