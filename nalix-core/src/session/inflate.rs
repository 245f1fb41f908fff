//! The way in for messages that come compressed in one frame.

use bytes::Bytes;

use super::{Frame, Inbound, Unfinished, inbound::max_message, max_items, partial::split_metadata};
use crate::{
    error::ProtocolError,
    frame::{self, FRAGMENT, FrameKind, Parsed, compress::Compressed},
};

impl Inbound {
    /// Inflates the message of a frame. It is refused, like one in fragments, if it would not fit a frame without being
    /// compressed and there is no room for it.
    pub(super) fn split_compressed(&mut self, parsed: Parsed) -> Result<Frame, ProtocolError> {
        let Parsed { head, payload } = parsed;
        self.at = payload.end;
        let body = self.body.slice(payload);
        let (metadata, entries, bytes) = split_metadata(head, &body)?;
        let frame::Head { kind, upload, id, opcode, .. } = head;
        // What travels is shorter than the message, and so within the limit if the message is.
        if bytes.len() > FRAGMENT {
            return Err(ProtocolError::MessageTooLarge { found: bytes.len(), limit: FRAGMENT });
        }
        let message = Compressed::split(bytes, bytes.len())?;
        let limit = match kind {
            FrameKind::Item => max_items(self.max_message),
            kind => max_message(kind, self.max_message),
        };
        if message.len > limit {
            return Err(ProtocolError::MessageTooLarge { found: message.len, limit });
        }
        let sealed = self.sealed;
        let announced = self.held + self.assembly.as_ref().map_or(0, |assembly| assembly.announced());
        let refused = message.len > FRAGMENT && announced.saturating_add(message.len) > self.reassembly;
        let inflated = match refused {
            true => Err(Unfinished::OverBudget),
            false => self.inflate(message, 0)?,
        };
        let (payload, unfinished) = match inflated {
            Ok(payload) => (payload, None),
            Err(why) => (Bytes::new(), Some(why)),
        };
        self.release_body();
        Ok(Frame { kind, upload, id, opcode, sealed, metadata, entries, payload, unfinished })
    }

    /// Inflates a message for which `beside` bytes of memory are in use besides what is known of. It is refused if it would
    /// not fit a frame and there is no memory for it.
    pub(super) fn inflate(
        &mut self,
        message: Compressed<'_>,
        beside: usize,
    ) -> Result<Result<Bytes, Unfinished>, ProtocolError> {
        if message.len > FRAGMENT {
            let kept = self.assembly.as_ref().map_or(0, |assembly| assembly.kept());
            if !self.share.could_hold(message.len) {
                return Ok(Err(Unfinished::OverBudget));
            }
            if !self.share.grow_to(self.held + kept + beside + message.len) {
                return Ok(Err(Unfinished::Crowded));
            }
        }
        message.inflate().map(Ok)
    }
}
