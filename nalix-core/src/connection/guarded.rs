//! What the driver does for handlers with a policy.

use tokio::time::Instant;

use super::{driver::Driver, inbox::Ticket};
use crate::{
    controller::{Call, Route},
    link::Link,
    status::Status,
};

impl<L: Link> Driver<L> {
    /// Checks what of a handler's policy is known when its packet has arrived.
    #[inline(never)]
    pub(super) fn admit(&mut self, route: Route, len: usize, answered: bool) -> Result<(), Status> {
        let Some((guard, at)) = self.router.guard(route) else { return Ok(()) };
        let time = &mut self.now;
        let now = || time.get_or_insert_with(Instant::now).into_std();
        let Err(refusal) = guard.admit(at, self.context.connection(), len, &mut self.levels, now) else {
            return Ok(());
        };
        if !answered {
            let now = self.now.get_or_insert_with(Instant::now).into_std();
            guard.note_refused(refusal, now);
        }
        Err(refusal.status())
    }

    /// Lets the call have as long as its handler's policy allows, if that is shorter than what its caller does.
    #[inline(never)]
    pub(super) fn limit_time(&mut self, call: &mut Call, ticket: &mut Ticket) {
        let route = call.route();
        let timeout = self.router.guard(route).and_then(|(guard, _)| guard.timeout());
        let Some(until) = timeout.and_then(|timeout| self.now().checked_add(timeout)) else { return };
        if ticket.deadline.is_some_and(|deadline| deadline <= until) {
            return;
        }
        ticket.deadline = Some(until);
        ticket.limited = Some(route);
        call.set_deadline(until.into_std());
        self.arm_for(until);
    }

    /// Lets the policies know of the calls among those answered that were stopped for their sake.
    pub(super) fn note_overdue(&self, now: Instant) {
        for (ticket, _) in &self.answered {
            if let Some((guard, _)) = ticket.limited.and_then(|route| self.router.guard(route)) {
                guard.overdue(now.into_std());
            }
        }
    }
}
