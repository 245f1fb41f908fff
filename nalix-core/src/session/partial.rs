//! The way in for frames that are no whole messages as they stand there: fragments, and what is compressed.

use bytes::Bytes;

use super::{
    Frame, Inbound,
    assembly::{Assembled, Room, Start},
    inbound::max_message,
};
use crate::{
    error::ProtocolError,
    frame::{self, Entries, FrameKind, Metadata, Parsed, compress::Compressed},
    wire::varint,
};

impl Inbound {
    /// Takes a frame that is not a whole message as it stands there. Returns whether it makes one, which `whole` is then.
    #[inline(never)]
    pub(super) fn split_unusual(&mut self, parsed: Parsed, whole: &mut Frame) -> Result<bool, ProtocolError> {
        let frame::Head { compressed, more, .. } = parsed.head;
        if compressed && !self.inflates {
            return Err(ProtocolError::BadFrame { what: "compressed message, which was not agreed on" });
        }
        let made = match compressed && !more {
            true => Some(self.split_compressed(parsed)?),
            false => self.split_fragment(parsed)?,
        };
        let Some(made) = made else { return Ok(false) };
        *whole = made;
        Ok(true)
    }

    /// Puts a fragment where it belongs. Returns the message if this was its end.
    fn split_fragment(&mut self, parsed: Parsed) -> Result<Option<Frame>, ProtocolError> {
        let Parsed { head, payload } = parsed;
        self.at = payload.end;
        let mut bytes = &self.body[payload];
        let assembly = self.assembly.get_or_insert_default();
        let announced = self.reassembly.saturating_sub(self.held);
        let room = Room { announced, held: self.held, share: &mut self.share };
        let done = if head.kind == FrameKind::Continue {
            assembly.go_on(head.id.get(), head.more, self.sealed, bytes, room)?
        } else {
            let (slot, total);
            (slot, bytes) = short_varint(bytes)?;
            (total, bytes) = short_varint(bytes)?;
            let (metadata, entries);
            (metadata, entries, bytes) = split_metadata(head, bytes)?;
            let total = total as usize;
            let found = if head.compressed { Compressed::split(bytes, total)?.len } else { total };
            let limit = max_message(head.kind, self.max_message);
            if found > limit {
                return Err(ProtocolError::MessageTooLarge { found, limit });
            }
            let sealed = self.sealed;
            let start = Start { head, sealed, metadata, entries, slot, total, len: found, bytes };
            assembly.start(start, room)?
        };
        self.release_body();
        let Some(Assembled { mut frame, compressed }) = done else { return Ok(None) };
        if compressed && frame.unfinished.is_none() {
            let message = Compressed::split(&frame.payload, frame.payload.len())?;
            match self.inflate(message, frame.payload.len())? {
                Ok(payload) => frame.payload = payload,
                Err(why) => (frame.payload, frame.unfinished) = (Bytes::new(), Some(why)),
            }
        }
        Ok(Some(frame))
    }
}

/// Takes the metadata off the front of what a frame carries, if it has any.
pub(super) fn split_metadata(
    head: frame::Head,
    bytes: &[u8],
) -> Result<(Metadata, Option<Entries>, &[u8]), ProtocolError> {
    if !head.metadata {
        return Ok((Metadata::default(), None, bytes));
    }
    let block = Metadata::split(bytes)?;
    Ok((block.metadata, block.entries(), &bytes[block.len..]))
}

fn short_varint(input: &[u8]) -> Result<(u32, &[u8]), ProtocolError> {
    let bad = ProtocolError::BadFrame { what: "bad start of a message in fragments" };
    match varint::split(input) {
        Ok((value, rest)) => u32::try_from(value).map(|value| (value, rest)).map_err(|_| bad),
        Err(_) => Err(bad),
    }
}
