//! The driver's way in: from the link to the bytes that have been received.

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
    pub(super) fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let Some(link) = &mut self.link else { return Poll::Pending };
        let read = link.poll_read(cx, self.inbound.buffer());
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
