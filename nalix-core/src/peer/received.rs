//! How far the peer's frames have been handled, on a session that outlives its links, and how much of that it knows.

use std::sync::atomic::{AtomicU64, Ordering};

use super::shared::Shared;
use crate::{
    frame::{FrameKind, Head},
    session::{Cover, Outbound},
};

/// Positions in what the peer has sent, in bytes of frames since the session began. Both stay zero on a connection that ends
/// with its link.
#[derive(Debug, Default)]
pub(crate) struct Received {
    /// Up to where frames have been handled. The driver sets it.
    handled: AtomicU64,
    /// Up to where the peer has been told so. It is set under the lock of the outbox.
    told: AtomicU64,
}

impl Received {
    /// Everything in front of `position` has been handled. Returns how much of that the peer has not been told.
    #[inline]
    pub(crate) fn note(&self, position: u64) -> u64 {
        self.handled.store(position, Ordering::Relaxed);
        self.untold()
    }

    /// The peer knows that everything in front of `position` has been handled, and no more has been.
    pub(crate) fn all_told(&self, position: u64) {
        self.handled.store(position, Ordering::Relaxed);
        self.told.store(position, Ordering::Relaxed);
    }

    #[inline]
    fn untold(&self) -> u64 {
        self.handled.load(Ordering::Relaxed).saturating_sub(self.told.load(Ordering::Relaxed))
    }

    /// Tells the peer along with what is about to be written, if that is worth a frame. Of a connection whose only caller
    /// writes by itself, the driver has nothing to write that an acknowledgement could go along with.
    #[inline]
    pub(super) fn tell_along(&self, out: &mut Outbound) {
        if self.untold() >= ALONG {
            self.tell(out);
        }
    }

    fn tell(&self, out: &mut Outbound) {
        let handled = self.handled.load(Ordering::Relaxed);
        self.told.store(handled, Ordering::Relaxed);
        let head = Head::plain(FrameKind::Ack);
        if let Err(error) = out.append_error(Cover::Sealed, head, 9, |w| w.put_varint(handled)) {
            tracing::error!(%error, "an acknowledgement cannot be sent");
        }
    }
}

impl Shared {
    /// Tells the peer how much has been handled. Returns how many bytes wait to be written then.
    pub(crate) fn tell_received(&self) -> usize {
        self.append(|out| self.received.tell(out))
    }
}

/// So many bytes are acknowledged along with whatever is written.
pub(crate) const ALONG: u64 = 4 * 1024;
