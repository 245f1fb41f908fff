//! Frames in, bytes out.

use std::fmt;

use super::{Cover, fragments::Completed, max_error, max_items, queues::Queues, resend::ResendLog};
use crate::{
    error::EncodeError,
    frame::{self, Entries, FRAGMENT, Head, Metadata},
    handshake::Sealing,
    packet::Priority,
    record::{self, RecordKind, Sealer},
    wire::{Writer, varint},
};

/// Where a frame has gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// How many bytes had been appended before it since the connection began: what has been written beyond this
    /// number has taken part of the frame along. Nothing yet of a message that goes in fragments: [`u64::MAX`].
    pub position: u64,
}

/// Puts frames into records. Frames that are appended between two flushes share records.
pub struct Outbound {
    pub(super) buf: Vec<u8>,
    /// The record that is being filled.
    pub(super) open: Option<Open>,
    /// What waits for its turn: messages that go in fragments, and frames that are ranked. Made when it is first needed.
    pub(super) queues: Option<Box<Queues>>,
    /// Whether frames are ranked by priority when many wait.
    pub(super) ranked: bool,
    /// How many bytes of it may wait without counting as a backlog.
    pub(super) large_room: usize,
    /// Whether anything of the application's has been appended since it was last asked.
    pub(super) active: bool,
    pub(super) completed: Vec<Completed>,
    /// The goodbye, which comes behind everything else.
    pub(super) last: Option<(Cover, Head, Vec<u8>)>,
    pub(super) max_message: usize,
    /// Whether the peer can inflate what is compressed.
    pub(super) compresses: bool,
    /// Bytes that have been taken away by [`Outbound::take`].
    pub(super) taken: u64,
    /// What seals records, on a secured connection.
    pub(super) sealer: Option<Sealer>,
    pub(super) sealing: Sealing,
    /// Whether the sealer has come to its end: nothing may be sent any more.
    pub(super) exhausted: bool,
    /// What may have to be sent again over another link, on a session that outlives its links.
    pub(super) log: Option<Box<ResendLog>>,
}

impl fmt::Debug for Outbound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbound")
            .field("waiting", &self.buf.len())
            .field("large", &self.large_len())
            .field("taken", &self.taken)
            .field("sealing", &self.sealing)
            .field("exhausted", &self.exhausted)
            .finish_non_exhaustive()
    }
}

#[derive(Clone, Copy)]
pub(super) struct Open {
    pub(super) start: usize,
    pub(super) cover: Cover,
}

impl Outbound {
    /// For an established connection that is not secured.
    pub fn new(max_message: usize) -> Self {
        Self {
            buf: Vec::new(),
            open: None,
            queues: None,
            ranked: false,
            large_room: usize::MAX,
            active: false,
            completed: Vec::new(),
            last: None,
            max_message,
            compresses: false,
            taken: 0,
            sealer: None,
            sealing: Sealing::None,
            exhausted: false,
            log: None,
        }
    }

    /// For an established connection whose records `sealer` seals: all of them, or with [`Sealing::Marked`] those whose
    /// frames ask for it.
    #[must_use]
    pub fn secured(max_message: usize, sealer: Sealer, sealing: Sealing) -> Self {
        Self { sealer: Some(sealer), sealing, ..Self::new(max_message) }
    }

    /// Whether no more can be sealed under this key. What has not been taken by then is lost, and the connection with it.
    pub fn is_exhausted(&self) -> bool {
        self.exhausted
    }

    /// Whether anything has been appended since this was last asked that is not about the connection alone.
    pub(crate) fn take_active(&mut self) -> bool {
        std::mem::take(&mut self.active)
    }

    /// The message limit that both sides have agreed on, in bytes.
    pub fn max_message(&self) -> usize {
        self.max_message
    }

    /// How many bytes wait to be taken, without what goes in fragments as long as there is room for that.
    #[inline]
    pub fn len(&self) -> usize {
        match &self.queues {
            None => self.buf.len(),
            Some(queues) => {
                self.buf.len() + queues.frames_len() + queues.large_len().saturating_sub(self.large_room)
            }
        }
    }

    /// Whether nothing waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.buf.is_empty() && !self.has_queued() && self.last.is_none()
    }

    /// Appends a frame whose payload `write` writes. `hint` is about how long that will be. `cover` says in what kind of
    /// record it goes, where there is a choice: under [`Sealing::Marked`].
    ///
    /// What is longer than [`FRAGMENT`] waits by itself, and goes in fragments when it is its turn: frames that are appended
    /// later may be sent earlier.
    ///
    /// # Errors
    /// [`EncodeError`] if the payload is over the message limit or cannot be encoded; nothing has been appended then.
    #[inline]
    pub fn append(
        &mut self,
        cover: Cover,
        head: Head,
        metadata: Metadata,
        hint: usize,
        write: impl FnOnce(&mut Writer<'_>),
    ) -> Result<Appended, EncodeError> {
        self.append_as(None, cover, head, (metadata, None), hint, write)
    }

    /// As [`Outbound::append`], with the priority of the packet, if it has one, and with entries of the user's in the metadata.
    /// They do not count for the message limit.
    ///
    /// # Errors
    /// As [`Outbound::append`].
    #[inline]
    pub fn append_as(
        &mut self,
        priority: Option<Priority>,
        cover: Cover,
        head: Head,
        metadata: (Metadata, Option<&Entries>),
        hint: usize,
        write: impl FnOnce(&mut Writer<'_>),
    ) -> Result<Appended, EncodeError> {
        self.append_within(self.max_message, priority, cover, head, metadata, hint, write)
    }

    /// As [`Outbound::append`], for a frame that carries one byte besides a message.
    ///
    /// # Errors
    /// As [`Outbound::append`].
    pub fn append_error(
        &mut self,
        cover: Cover,
        head: Head,
        hint: usize,
        write: impl FnOnce(&mut Writer<'_>),
    ) -> Result<Appended, EncodeError> {
        self.append_error_as(None, cover, head, None, hint, write)
    }

    /// As [`Outbound::append`], for bytes of items of a stream, each with its length in front, with the priority of its packet.
    /// They must fit a frame.
    ///
    /// # Errors
    /// As [`Outbound::append`].
    pub fn append_items(
        &mut self,
        priority: Option<Priority>,
        cover: Cover,
        head: Head,
        items: &[u8],
    ) -> Result<Appended, EncodeError> {
        let limit = max_items(self.max_message);
        let metadata = (Metadata::default(), None);
        self.append_here(limit, priority, cover, head, metadata, items.len(), |w| w.put(items))
    }

    /// As [`Outbound::append_error`], with the priority of the packet, if it has one, and with entries of the user's.
    ///
    /// # Errors
    /// As [`Outbound::append`].
    pub fn append_error_as(
        &mut self,
        priority: Option<Priority>,
        cover: Cover,
        head: Head,
        entries: Option<&Entries>,
        hint: usize,
        write: impl FnOnce(&mut Writer<'_>),
    ) -> Result<Appended, EncodeError> {
        let limit = max_error(self.max_message);
        self.append_within(limit, priority, cover, head, (Metadata::default(), entries), hint, write)
    }

    #[allow(clippy::too_many_arguments, reason = "each is another part of one frame")]
    #[inline]
    pub(super) fn append_within(
        &mut self,
        limit: usize,
        priority: Option<Priority>,
        cover: Cover,
        head: Head,
        metadata: (Metadata, Option<&Entries>),
        hint: usize,
        write: impl FnOnce(&mut Writer<'_>),
    ) -> Result<Appended, EncodeError> {
        let limit = if head.kind.may_go_on() { limit } else { limit.min(FRAGMENT) };
        if hint > FRAGMENT {
            return self.append_apart(limit, priority, cover, head, metadata, hint, write);
        }
        self.append_here(limit, priority, cover, head, metadata, hint, write)
    }

    #[allow(clippy::too_many_arguments, reason = "each is another part of one frame")]
    #[inline]
    fn append_here(
        &mut self,
        limit: usize,
        priority: Option<Priority>,
        cover: Cover,
        head: Head,
        (metadata, entries): (Metadata, Option<&Entries>),
        hint: usize,
        write: impl FnOnce(&mut Writer<'_>),
    ) -> Result<Appended, EncodeError> {
        let cover = self.cover(cover);
        self.active |= head.kind.is_of_application();
        if self.is_ranked(priority) && self.must_wait(head) {
            return self.append_ranked(limit, priority, cover, head, (metadata, entries), hint, write);
        }
        // Before the state to go back to is noted: what has been sealed cannot be opened up again.
        self.close_unless_fits(cover);
        // Takes a half-written frame back when `write` fails, and also when it panics: it is user code.
        let mut undo = Undo { before: self.buf.len(), open: self.open, done: false, out: self };
        let out = &mut *undo.out;
        out.buf.reserve(hint + record::HEADER + frame::MAX_OVERHEAD + 16);
        out.open_record(cover);
        let position = out.taken + out.buf.len() as u64;
        let head = Head { metadata: !metadata.is_empty() || entries.is_some(), ..head };
        // The length goes in front of what has not been written yet: leave as many bytes as it will probably take.
        let room = varint::len(hint as u64).min(5);
        let len_at = frame::put_head_and_room(&mut out.buf, head, room);
        if head.metadata {
            match entries {
                None => metadata.encode(&mut out.buf),
                Some(entries) => metadata.encode_with(entries, &mut out.buf),
            }
        }
        let mut w = Writer::new(&mut out.buf, limit);
        write(&mut w);
        let len = w.finish()?;
        if len > FRAGMENT {
            let payload = out.buf.split_off(out.buf.len() - len);
            drop(undo);
            return Ok(self.push_large(priority, cover, head, (metadata, entries), payload.into()));
        }
        out.put_len(len_at, room);
        undo.done = true;
        Ok(Appended { position })
    }

    /// Appends what is probably too long for a frame: encoded by itself, so that it need not be copied for that.
    #[allow(clippy::too_many_arguments, reason = "each is another part of one frame")]
    #[inline(never)]
    fn append_apart(
        &mut self,
        limit: usize,
        priority: Option<Priority>,
        cover: Cover,
        head: Head,
        metadata: (Metadata, Option<&Entries>),
        hint: usize,
        write: impl FnOnce(&mut Writer<'_>),
    ) -> Result<Appended, EncodeError> {
        let mut payload = Vec::with_capacity(hint.min(limit));
        let mut w = Writer::new(&mut payload, limit);
        write(&mut w);
        if w.finish()? > FRAGMENT {
            return Ok(self.push_large(priority, cover, head, metadata, payload.into()));
        }
        let write = |w: &mut Writer<'_>| w.put(&payload);
        self.append_here(limit, priority, cover, head, metadata, payload.len(), write)
    }

    /// Takes bytes that are ready for the link, and leaves `spare` (emptied) to be filled: all frames that wait, and behind
    /// them some of what waits for its turn. If there is more of that, [`Outbound::is_empty`] says so.
    pub fn take(&mut self, mut spare: Vec<u8>) -> Vec<u8> {
        self.put_queued();
        self.close_record();
        if let Some(log) = &mut self.log {
            log.taken();
        }
        spare.clear();
        let full = std::mem::replace(&mut self.buf, spare);
        self.taken += full.len() as u64;
        full
    }

    /// Lets `write` write what waits, and returns whether it has written all. It says how many bytes it has
    /// written; those that are left stay at the front. Never all once [`Outbound::is_exhausted`] says yes, nor while
    /// something waits for its turn: that is left to [`Outbound::take`].
    pub fn write_with(&mut self, write: impl FnOnce(&[u8]) -> usize) -> bool {
        if self.has_queued() {
            return false;
        }
        self.close_record();
        if let Some(log) = &mut self.log {
            log.taken();
        }
        let n = write(&self.buf).min(self.buf.len());
        self.taken += n as u64;
        self.buf.drain(..n);
        self.buf.is_empty() && !self.exhausted
    }

    pub(super) fn cover(&self, asked: Cover) -> Cover {
        match self.sealing {
            Sealing::None => Cover::Plain,
            Sealing::All => Cover::Sealed,
            Sealing::Marked => asked,
        }
    }

    #[inline]
    pub(super) fn close_unless_fits(&mut self, cover: Cover) {
        if let Some(open) = self.open
            && (open.cover != cover || self.buf.len() - open.start >= record::HEADER + record::TARGET_BODY)
        {
            self.close_record();
        }
    }

    pub(super) fn open_record(&mut self, cover: Cover) {
        if self.open.is_none() {
            self.open = Some(Open { start: self.buf.len(), cover });
            self.buf.extend_from_slice(&[0; record::HEADER]);
        }
    }

    pub(super) fn close_record(&mut self) {
        let Some(Open { start, cover }) = self.open.take() else { return };
        if let Some(log) = &mut self.log {
            log.push(cover, &self.buf[start + record::HEADER..]);
        }
        self.finish_record(start, cover);
    }

    /// Makes a record of what lies behind the room for its header.
    pub(super) fn finish_record(&mut self, start: usize, cover: Cover) {
        match (&mut self.sealer, cover) {
            (Some(sealer), Cover::Sealed) => {
                if self.exhausted || sealer.seal(&mut self.buf, start).is_err() {
                    self.exhausted = true;
                    self.buf.truncate(start);
                }
            }
            _ => {
                let len = self.buf.len() - start - record::HEADER;
                let header = record::header(RecordKind::Plain, len);
                self.buf[start..start + record::HEADER].copy_from_slice(&header);
            }
        }
    }

    /// Writes the payload's length into the `room` bytes left for it, moving the payload if they are too few or many.
    #[inline]
    fn put_len(&mut self, len_at: usize, room: usize) {
        let start = len_at + room;
        let len = self.buf.len() - start;
        let width = varint::len(len as u64);
        if width > room {
            self.buf.extend_from_slice(&[0; 5][..width - room]);
        }
        if width != room {
            self.buf.copy_within(start..start + len, len_at + width);
            self.buf.truncate(len_at + width + len);
        }
        varint::put(len as u64, &mut self.buf[len_at..]);
    }
}

struct Undo<'a> {
    out: &'a mut Outbound,
    before: usize,
    open: Option<Open>,
    done: bool,
}

impl Drop for Undo<'_> {
    fn drop(&mut self) {
        if !self.done {
            self.out.buf.truncate(self.before);
            self.out.open = self.open;
        }
    }
}
