//! When the driver leaves the link unread.

use super::driver::Driver;
use crate::link::Link;

impl<L: Link> Driver<L> {
    /// Reading goes on while the connection is open, whatever waits to be written: replies must get through. Only a
    /// peer that floods us with what costs memory is left unread.
    pub(super) fn may_read(&self) -> bool {
        // Those who send here never go beyond the limit of a priority. There may be as much of each.
        let max = self.max_backlog();
        !self.is_flooded() && (self.backlog < max || self.shared.longest_backlog() < max)
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
}

/// How far the outbox may be over its limit before the peer is not read, besides once more the limit.
const MIN_HEADROOM: usize = 64 * 1024;
