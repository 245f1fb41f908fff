//! The driver's way in: from the link to the frames that have been received.

use std::{
    io,
    task::{Context, Poll},
};

use super::{driver::Driver, phase::Phase};
use crate::{
    link::Link,
    status::{CloseCode, CloseReason, Side},
};

impl<L: Link> Driver<L> {
    /// Reading goes on while the connection is open, whatever waits to be written: replies must get through. Only a
    /// peer that floods us with what costs memory is left unread.
    pub(super) fn may_read(&self) -> bool {
        !self.is_flooded() && self.backlog < self.max_backlog()
    }

    /// Whether more one-way packets wait than may.
    pub(super) fn is_flooded(&self) -> bool {
        let queued = self.inbox.queued_one_way();
        let limit = self.options.max_queued;
        // A handler may be waiting for the peer's answer, which must not wait behind what floods us.
        let many = queued >= limit || self.inbox.queued_bytes() > self.options.reassembly / 2;
        many && (queued >= limit.saturating_mul(16) || self.shared.in_flight() == 0)
    }

    /// How much a peer may make us owe it before it is left unread.
    pub(super) fn max_backlog(&self) -> usize {
        self.options.outbox.saturating_mul(2).saturating_add(MIN_HEADROOM)
    }

    pub(super) fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let read = self.link.poll_read(cx, self.inbound.buffer());
        if let Poll::Ready(Ok(n)) = read {
            self.inbound.received(n);
        }
        read
    }

    pub(super) fn end_of_input(&self) -> CloseReason {
        if let Phase::Closing { reason, .. } | Phase::Lingering { reason, .. } = &self.phase {
            return reason.clone();
        }
        let message = match self.inbound.end() {
            Ok(()) => "the peer ended the link without saying why".into(),
            Err(error) => error.to_string().into(),
        };
        CloseReason { message, ..CloseReason::new(CloseCode::Lost, "").by(Side::Peer) }
    }
}

/// How far the outbox may be over its limit before the peer is not read, besides once more the limit.
const MIN_HEADROOM: usize = 64 * 1024;
