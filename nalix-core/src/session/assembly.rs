//! Messages that arrive in fragments, until they are whole.

use bytes::Bytes;

use super::{Frame, Unfinished, budget::Share};
use crate::{
    error::ProtocolError,
    frame::{Entries, FRAGMENT, Head, Metadata, SLOTS},
};

/// The slots of one direction. Memory grows with what has come, and never beyond the length that was announced.
#[derive(Default)]
pub(super) struct Assembly {
    slots: [Option<Message>; SLOTS],
    /// Bytes announced by the messages that are kept, as many as they have when they are inflated.
    announced: usize,
    /// Bytes of memory that they have been given.
    kept: usize,
}

/// How much room there is for messages.
pub(super) struct Room<'a> {
    /// How many bytes may be announced.
    pub(super) announced: usize,
    /// How many bytes handlers hold.
    pub(super) held: usize,
    /// What the connection has of the memory that is shared with others.
    pub(super) share: &'a mut Share,
}

struct Message {
    head: Head,
    sealed: bool,
    metadata: Metadata,
    entries: Option<Entries>,
    total: usize,
    len: usize,
    got: usize,
    /// What has come so far; `None` if the message has been refused and the rest of it is skipped.
    body: Option<Vec<u8>>,
    /// How many bytes of memory there are for it.
    room: usize,
}

/// The first fragment of a message.
pub(super) struct Start<'a> {
    pub(super) head: Head,
    pub(super) sealed: bool,
    pub(super) metadata: Metadata,
    pub(super) entries: Option<Entries>,
    pub(super) slot: u32,
    /// How many bytes of the message travel.
    pub(super) total: usize,
    /// The length of the whole message, in bytes: more than travel, if it is compressed. It is within the limit.
    pub(super) len: usize,
    pub(super) bytes: &'a [u8],
}

/// What has come of a message.
pub(super) struct Assembled {
    pub(super) frame: Frame,
    /// Whether its payload has still to be inflated.
    pub(super) compressed: bool,
}

impl Assembly {
    /// Takes the first fragment of a message. Returns a frame if the message is refused, for want of room.
    ///
    /// # Errors
    /// [`ProtocolError`] if a message must not start like this.
    pub(super) fn start(
        &mut self,
        start: Start<'_>,
        room: Room<'_>,
    ) -> Result<Option<Assembled>, ProtocolError> {
        let Start { head, sealed, metadata, entries, slot, total, len, bytes } = start;
        check_size(bytes)?;
        let slot = self.slots.get_mut(slot as usize).ok_or(bad("fragment in a slot that there is not"))?;
        if slot.is_some() {
            return Err(bad("message in a slot that is in use"));
        }
        if bytes.is_empty() {
            return Err(bad("empty fragment"));
        }
        if bytes.len() >= total {
            return Err(bad("more fragments than the message has bytes"));
        }
        let mut message =
            Message { head, sealed, metadata, entries, total, len, got: bytes.len(), body: None, room: 0 };
        let refused = if self.announced.saturating_add(len) > room.announced || !room.share.could_hold(len) {
            Some(Unfinished::OverBudget)
        } else if !room.share.grow_to(room.held + self.kept + bytes.len()) {
            Some(Unfinished::Crowded)
        } else {
            None
        };
        if let Some(why) = refused {
            let refused = message.unfinished(why);
            *slot = Some(message);
            return Ok(Some(refused));
        }
        self.announced += len;
        self.kept += bytes.len();
        message.room = bytes.len();
        message.body = Some(bytes.to_vec());
        *slot = Some(message);
        Ok(None)
    }

    /// Takes another fragment. Returns the message if it is whole, given up, or refused, for want of room.
    ///
    /// # Errors
    /// [`ProtocolError`] if no message goes on like this.
    pub(super) fn go_on(
        &mut self,
        slot: u32,
        more: bool,
        sealed: bool,
        bytes: &[u8],
        room: Room<'_>,
    ) -> Result<Option<Assembled>, ProtocolError> {
        check_size(bytes)?;
        let slot = self.slots.get_mut(slot as usize).ok_or(bad("fragment in a slot that there is not"))?;
        let message = slot.as_mut().ok_or(bad("fragment of no message"))?;
        if message.sealed && !sealed {
            return Err(ProtocolError::Unsealed { what: "fragment of a sealed message" });
        }
        if message.sealed != sealed {
            return Err(bad("sealed fragment of a message in the clear"));
        }
        let given_up = bytes.is_empty();
        if given_up && more {
            return Err(bad("empty fragment"));
        }
        message.got += bytes.len();
        if message.got > message.total || (more && message.got == message.total) {
            return Err(bad("more fragments than the message has bytes"));
        }
        if !more && !given_up && message.got < message.total {
            return Err(bad("fewer fragments than the message has bytes"));
        }
        let mut crowded = None;
        if message.body.is_some() {
            let growth = message.growth(bytes.len());
            if room.share.grow_to(room.held + self.kept + growth) {
                self.kept += growth;
                message.room += growth;
            } else {
                self.kept -= message.room;
                self.announced -= message.len;
                crowded = Some(message.unfinished(Unfinished::Crowded));
                message.body = None;
            }
        }
        if more {
            message.add(bytes);
            return Ok(crowded);
        }
        let Some(mut message) = slot.take() else { return Ok(None) };
        if message.body.is_none() {
            // Its end has been reported when it was refused, unless that is now.
            return Ok(crowded);
        }
        self.announced -= message.len;
        self.kept -= message.room;
        if given_up {
            return Ok(Some(message.unfinished(Unfinished::GivenUp)));
        }
        message.add(bytes);
        Ok(Some(message.whole()))
    }

    /// How many bytes of memory messages have that are not whole.
    pub(super) fn kept(&self) -> usize {
        self.kept
    }

    /// Bytes announced by the messages that are not whole yet.
    pub(super) fn announced(&self) -> usize {
        self.announced
    }

    /// How many bytes of unfinished messages have not come yet; `None` if there is no such message.
    pub(super) fn missing(&self) -> Option<usize> {
        self.slots.iter().flatten().map(|message| message.total - message.got).reduce(|a, b| a + b)
    }
}

impl Message {
    /// How much more memory it needs to take so many bytes in.
    fn growth(&self, n: usize) -> usize {
        match &self.body {
            Some(body) if self.room - body.len() < n => {
                (self.room * 2).max(body.len() + n).min(self.total) - self.room
            }
            _ => 0,
        }
    }

    /// Takes bytes in for which there is room.
    fn add(&mut self, bytes: &[u8]) {
        let Some(body) = &mut self.body else { return };
        body.reserve_exact(self.room - body.len());
        body.extend_from_slice(bytes);
    }

    fn whole(self) -> Assembled {
        let payload = Bytes::from(self.body.unwrap_or_default());
        let Head { kind, compressed, upload, id, opcode, .. } = self.head;
        let (sealed, metadata, entries) = (self.sealed, self.metadata, self.entries);
        let frame = Frame { kind, upload, id, opcode, sealed, metadata, entries, payload, unfinished: None };
        Assembled { frame, compressed }
    }

    fn unfinished(&self, what: Unfinished) -> Assembled {
        let Head { kind, compressed, upload, id, opcode, .. } = self.head;
        let (sealed, metadata, entries) = (self.sealed, self.metadata, self.entries.clone());
        let (payload, unfinished) = (Bytes::new(), Some(what));
        let frame = Frame { kind, upload, id, opcode, sealed, metadata, entries, payload, unfinished };
        Assembled { frame, compressed }
    }
}

fn check_size(bytes: &[u8]) -> Result<(), ProtocolError> {
    if bytes.len() > FRAGMENT {
        return Err(ProtocolError::MessageTooLarge { found: bytes.len(), limit: FRAGMENT });
    }
    Ok(())
}

const fn bad(what: &'static str) -> ProtocolError {
    ProtocolError::BadFrame { what }
}
