//! The way in for messages that come compressed in one frame.

use bytes::Bytes;

use super::{Frame, Inbound, Unfinished, inbound::max_message, max_items};
use crate::{
    error::ProtocolError,
    frame::{self, FRAGMENT, FrameKind, Metadata, Parsed, compress::Compressed},
};

impl Inbound {
    /// Inflates the message of a frame. It is refused, like one in fragments, if it would not fit a frame without being
    /// compressed and there is no room for it.
    pub(super) fn split_compressed(&mut self, parsed: Parsed) -> Result<Frame, ProtocolError> {
        let Parsed { head, payload } = parsed;
        self.at = payload.end;
        let mut bytes = &self.body[payload];
        let (mut metadata, mut entries) = (Metadata::default(), None);
        if head.metadata {
            let block = Metadata::split(bytes)?;
            (metadata, entries) = (block.metadata, block.entries());
            bytes = &bytes[block.len..];
        }
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
        let announced = self.assembly.as_ref().map_or(0, |assembly| assembly.announced());
        let refused = message.len > FRAGMENT && announced.saturating_add(message.len) > self.reassembly;
        let (payload, unfinished) = match refused {
            true => (Bytes::new(), Some(Unfinished::OverBudget)),
            false => (message.inflate()?, None),
        };
        self.release_body();
        Ok(Frame { kind, upload, id, opcode, sealed, metadata, entries, payload, unfinished })
    }
}
