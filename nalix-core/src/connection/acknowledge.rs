//! What the driver says and hears of frames that have been handled, on a session that outlives its links.

use super::driver::Driver;
use crate::{
    error::ProtocolError,
    frame::{Control, FrameKind, Head},
    link::Link,
    session::{Cover, Frame},
    wire::{Encode, Limits, Reader, Writer},
};

impl<L: Link> Driver<L> {
    /// Says how much has been handled, if that is worth a frame: a little if something is written anyway, much in any case.
    #[inline]
    pub(super) fn acknowledge(&mut self) {
        if self.shared.setup.terms.lasting {
            let new = self.inbound.position() - self.acknowledged;
            let along = self.must_look || self.backlog > 0;
            if new >= ALONE || (new >= ALONG && along) {
                self.acknowledge_now();
            }
        }
    }

    /// Says how much has been handled, if that is news.
    pub(super) fn acknowledge_now(&mut self) {
        let position = self.inbound.position();
        if self.shared.setup.terms.lasting && position > self.acknowledged && self.link.is_some() {
            self.acknowledged = position;
            self.append(Cover::Sealed, Head::plain(FrameKind::Ack), &Position(position));
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

struct Position(u64);

impl Encode for Position {
    fn encode(&self, w: &mut Writer<'_>) {
        w.put_varint(self.0);
    }
}

/// So many bytes are acknowledged along with whatever is written.
const ALONG: u64 = 4 * 1024;
/// So many bytes are acknowledged in any case.
const ALONE: u64 = 16 * 1024;
