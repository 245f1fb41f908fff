//! What the driver does with one-way packets: they go to subscribers, and to their handler.

use std::task::Context;

use super::driver::Driver;
use crate::{controller::CallKind, link::Link, peer::Pushed, session::Frame};

impl<L: Link> Driver<L> {
    /// Subscribers are not served in turn with handlers: each has a queue of its own.
    pub(super) fn handle_push(&mut self, frame: &mut Frame, cx: &mut Context<'_>) {
        let pushed = if self.phase.is_open() {
            self.shared.pushes.publish(frame.opcode, frame.sealed, &frame.payload)
        } else {
            Pushed::Unclaimed
        };
        if self.router.route(frame.opcode).is_some() {
            // A payload that does not decode costs patience once, there.
            self.handle_packet(frame, CallKind::OneWay, cx);
            return;
        }
        match pushed {
            Pushed::Taken => {}
            Pushed::Unclaimed => {
                tracing::debug!(opcode = %frame.opcode, "one-way packet that nobody takes");
                self.shared.pushes.note_unclaimed();
            }
            Pushed::Malformed => self.lose_patience(),
        }
    }
}
