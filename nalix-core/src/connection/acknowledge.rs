//! What the driver says and hears of frames that have been handled, on a session that outlives its links.

use super::driver::Driver;
use crate::{
    error::ProtocolError,
    frame::Control,
    link::Link,
    peer::ALONG,
    session::Frame,
    wire::{Limits, Reader},
};

impl<L: Link> Driver<L> {
    /// Says how much has been handled, if that is worth a frame: a little if something is written anyway, much in any case.
    #[inline]
    pub(super) fn acknowledge(&mut self) {
        if self.shared.setup.terms.lasting {
            let new = self.shared.received.note(self.inbound.position());
            let along = self.must_look || self.backlog > 0;
            if new >= ALONE || (new >= ALONG && along) {
                self.acknowledge_now();
            }
        }
    }

    /// Says how much has been handled, if that is news.
    pub(super) fn acknowledge_now(&mut self) {
        if self.shared.setup.terms.lasting
            && self.link.is_some()
            && self.shared.received.note(self.inbound.position()) > 0
        {
            self.must_look = true;
            self.backlog = self.shared.tell_received();
        }
    }

    /// The peer says how much it has handled.
    pub(super) fn handle_ack(&self, frame: &Frame) -> Result<(), ProtocolError> {
        if !self.shared.setup.terms.lasting {
            return Ok(());
        }
        let bad = |_| ProtocolError::BadFrame { what: "bad acknowledgement" };
        let mut r = Reader::new(&frame.payload, &Limits::DEFAULT);
        let position = r.varint().map_err(bad)?;
        r.finish().map_err(bad)?;
        self.shared.acknowledge(position)
    }

    /// A message about the link has come.
    pub(super) fn handle_link_message(&mut self, message: &Control) -> Result<(), ProtocolError> {
        self.inbound.uncount();
        match message {
            Control::Ready => Ok(()),
            // Those come first, and only to who has asked.
            _ => Err(ProtocolError::BadFrame { what: "word of a session that was not asked for" }),
        }
    }
}

/// So many bytes are acknowledged in any case.
const ALONE: u64 = 16 * 1024;
