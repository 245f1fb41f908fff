//! What the driver does when something is due.

use std::task::Context;

use tokio::time::Instant;

use super::{
    driver::Driver,
    phase::{Phase, going_away},
};
use crate::{link::Link, status::CloseReason};

impl<L: Link> Driver<L> {
    /// Something is due.
    pub(super) fn on_time(&mut self) -> Option<CloseReason> {
        let now = self.now();
        let next = self.shared.expire(now, &mut self.wakers);
        self.wake_callers();
        let next_in = self.inbox.expire(now, &mut self.answered);
        self.note_overdue(now);
        self.send_answered();
        for deadline in [next, next_in].into_iter().flatten() {
            self.timer.arm(deadline);
        }
        if let Some(since) = self.stalled
            && now.saturating_duration_since(since) >= self.options.stall_timeout
        {
            return Some(self.does_not_read(since));
        }
        if let Some(reason) = self.gave_up(now).or_else(|| self.check_liveness(now)) {
            return Some(reason);
        }
        if self.phase.until().is_some_and(|until| until <= now) {
            match &self.phase {
                Phase::Open => {}
                Phase::Draining { .. } => self.close(going_away()),
                Phase::Closing { reason, .. } | Phase::Lingering { reason, .. } => {
                    return Some(reason.clone());
                }
            }
        }
        None
    }

    pub(super) fn arm(&mut self, cx: &mut Context<'_>) {
        let away = self.away.as_ref().and_then(|away| away.until);
        for until in [self.phase.until(), away].into_iter().flatten() {
            self.timer.arm(until);
        }
        if let Some(since) = self.stalled
            && let Some(at) = since.checked_add(self.options.stall_timeout)
        {
            self.timer.arm(at);
        }
        self.timer.watch(cx);
    }

    pub(super) fn arm_for(&mut self, deadline: Instant) {
        self.timer.arm(deadline);
    }

    pub(super) fn now(&mut self) -> Instant {
        *self.now.get_or_insert_with(Instant::now)
    }
}
