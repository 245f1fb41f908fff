//! The way out for messages that are too long for one frame.

use bytes::Bytes;

use super::{
    Cover,
    lane::Role,
    outbound::{Appended, Outbound},
    queues::{Fragment, GivenUp, Message, Turn, by_size},
};
use crate::{
    CallId, Opcode,
    error::EncodeError,
    frame::{self, Entries, FrameKind, Head, Metadata},
    packet::Priority,
    record,
    wire::varint,
};

/// A request that has waited for its turn, when its last frame has been appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completed {
    /// The call.
    pub id: CallId,
    /// Where that starts, as in [`Appended::position`]. Without it there is no request.
    pub position: u64,
}

/// A message that has been taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TakenBack {
    /// How it was to go.
    pub cover: Cover,
    /// Whether a part of it has gone, so that the peer knows of it.
    pub begun: bool,
    /// What other frames about its call go as.
    pub priority: Priority,
}

impl Outbound {
    /// Sets how many bytes of messages that go in fragments may wait without counting in [`Outbound::len`]. Until it is set
    /// none of them counts.
    pub fn set_large_room(&mut self, bytes: usize) {
        self.large_room = bytes;
    }

    /// Whether a message of about `len` bytes that goes in fragments may be appended. One may whenever no other waits.
    pub fn has_large_room(&self, len: usize) -> bool {
        self.queues.as_ref().is_none_or(|queues| {
            queues.large_len() == 0
                || queues.large_len().checked_add(len).is_some_and(|sum| sum <= self.large_room)
        })
    }

    /// How many bytes wait of messages that go in fragments.
    #[inline]
    pub fn large_len(&self) -> usize {
        self.queues.as_ref().map_or(0, |queues| queues.large_len())
    }

    /// The opcodes of the one-way packets that go in fragments and have not gone yet, in no order and some more than once.
    pub fn large_notifies(&self) -> impl Iterator<Item = Opcode> {
        self.queues.iter().flat_map(|queues| queues.notifies())
    }

    /// Appends a message that is encoded already and longer than [`FRAGMENT`](frame::FRAGMENT), without a copy: it is shared
    /// until its fragments have gone. Its metadata is as in [`Outbound::append_as`].
    ///
    /// # Errors
    /// [`EncodeError::MessageTooLarge`] if it is over the message limit.
    pub fn append_encoded(
        &mut self,
        priority: Option<Priority>,
        cover: Cover,
        head: Head,
        metadata: (Metadata, Option<&Entries>),
        payload: Bytes,
    ) -> Result<Appended, EncodeError> {
        if payload.len() > self.max_message {
            return Err(EncodeError::MessageTooLarge { limit: self.max_message });
        }
        Ok(self.push_large(priority, cover, head, metadata, payload))
    }

    /// Appends a frame behind everything else, also behind what is appended later. There is only one.
    pub fn append_last(&mut self, cover: Cover, head: Head, payload: Vec<u8>) {
        self.last.get_or_insert((cover, head, payload));
        self.put_last();
    }

    /// Takes back what goes in fragments and has not gone yet. The connection must end then.
    pub fn drop_large(&mut self) {
        if let Some(queues) = &mut self.queues {
            queues.drop_large();
        }
    }

    /// Takes a message back that goes in fragments: our request `id`, or else the answer to the peer's. What has gone of it
    /// is declared void. `None` if there is no such message.
    pub fn give_up(&mut self, request: bool, id: CallId) -> Option<TakenBack> {
        let GivenUp { cover, priority, begun } = self.queues.as_mut()?.give_up(request, id)?;
        if let Some(slot) = begun {
            self.close_unless_fits(cover);
            self.open_record(cover);
            frame::put_head(&mut self.buf, Head::of_call(FrameKind::Continue, CallId::new(slot)));
            self.buf.push(0);
        }
        self.put_last();
        Some(TakenBack { cover, begun: begun.is_some(), priority })
    }

    /// Takes our request `id` back if it waits for its turn in a frame, and what belongs to it. Returns whether it was there.
    pub fn withdraw(&mut self, id: CallId) -> bool {
        let Some(queues) = &mut self.queues else { return false };
        let found = queues.forget(id, true);
        self.put_last();
        found
    }

    /// Takes back what still waits of the upload of our call `id`: it has been answered, and its id may be used again.
    pub fn drop_upload(&mut self, id: CallId) {
        if let Some(queues) = &mut self.queues {
            queues.forget(id, false);
            self.put_last();
        }
    }

    /// The requests of which the last fragment has been taken since this was last asked.
    pub fn completed(&mut self) -> impl Iterator<Item = Completed> {
        self.completed.drain(..)
    }

    #[inline(never)]
    pub(super) fn push_large(
        &mut self,
        priority: Option<Priority>,
        cover: Cover,
        head: Head,
        (metadata, entries): (Metadata, Option<&Entries>),
        payload: Bytes,
    ) -> Appended {
        let cover = self.cover(cover);
        self.active = true;
        let lane = priority.unwrap_or_default();
        let priority = priority.unwrap_or_else(|| by_size(payload.len()));
        let entries = entries.cloned();
        let message = Message { cover, head, metadata, entries, payload, at: 0, behind: (lane, 0) };
        self.queues.get_or_insert_default().push(priority, lane, message);
        Appended { position: u64::MAX }
    }

    /// Appends what waits and whose turn it is, as much as goes between two looks at what else there is.
    pub(super) fn put_queued(&mut self) {
        let Some(mut queues) = self.queues.take_if(|queues| !queues.is_empty()) else { return };
        // Frames that wait begin to wait when there is that much already.
        let ahead = if queues.frames_len() > 0 { self.buf.len() } else { 0 };
        let mut left = BURST.saturating_sub(ahead);
        // What has been appended so far must not have to wait for a fragment to be opened.
        // At once: a buffer that grows step by step ends at twice what it needs.
        let waiting = queues.large_len().min(left);
        self.buf.reserve(waiting + waiting.div_ceil(frame::FRAGMENT) * BESIDE);
        let mut small = true;
        while left > 0
            && let Some(turn) = queues.next()
        {
            let fragment = match turn {
                Turn::Frame(frame) => {
                    left = left.saturating_sub(frame.bytes.len());
                    self.close_unless_fits(frame.cover);
                    self.open_record(frame.cover);
                    let position = self.taken + self.buf.len() as u64;
                    self.buf.extend_from_slice(frame.bytes);
                    if let Role::Request(id) = frame.role {
                        self.completed.push(Completed { id, position });
                    }
                    small = true;
                    continue;
                }
                Turn::Fragment(fragment) => fragment,
            };
            if std::mem::take(&mut small) {
                self.close_record();
            }
            let (slot, end) = (fragment.slot, fragment.end);
            left = left.saturating_sub(end - fragment.message.at);
            let position = self.put_fragment(&fragment);
            if let Some(head) = queues.advance(slot, end)
                && head.kind == FrameKind::Request
            {
                self.completed.push(Completed { id: head.id, position });
            }
        }
        // Most connections never need it again.
        self.queues = (!queues.is_empty()).then_some(queues);
        self.put_last();
    }

    fn put_fragment(&mut self, fragment: &Fragment<'_>) -> u64 {
        let Fragment { slot, message, end } = *fragment;
        let Message { cover, mut head, metadata, ref entries, ref payload, at, .. } = *message;
        let mut start = Vec::new();
        if at == 0 {
            put_varint(&mut start, slot as usize);
            put_varint(&mut start, payload.len());
            if let Some(entries) = entries {
                head = head.with_metadata();
                metadata.encode_with(entries, &mut start);
            } else if !metadata.is_empty() {
                head = head.with_metadata();
                metadata.encode(&mut start);
            }
        } else {
            head = Head::of_call(FrameKind::Continue, CallId::new(slot));
        }
        if end < payload.len() {
            head = head.with_more();
        }
        self.close_unless_fits(cover);
        self.open_record(cover);
        let position = self.taken + self.buf.len() as u64;
        self.buf.reserve(frame::MAX_OVERHEAD + start.len() + (end - at) + record::TAG);
        frame::put_head(&mut self.buf, head);
        put_varint(&mut self.buf, start.len() + (end - at));
        self.buf.extend_from_slice(&start);
        self.buf.extend_from_slice(&payload[at..end]);
        position
    }

    /// Appends the goodbye if nothing else is left.
    fn put_last(&mut self) {
        if self.has_queued() {
            return;
        }
        if let Some((cover, head, payload)) = self.last.take() {
            let cover = self.cover(cover);
            self.close_unless_fits(cover);
            self.open_record(cover);
            frame::put_head(&mut self.buf, head);
            put_varint(&mut self.buf, payload.len());
            self.buf.extend_from_slice(&payload);
        }
    }
}

fn put_varint(out: &mut Vec<u8>, n: usize) {
    let mut buf = [0; varint::MAX_LEN];
    let len = varint::put(n as u64, &mut buf);
    out.extend_from_slice(&buf[..len]);
}

/// What most fragments take besides their bytes.
const BESIDE: usize = frame::MAX_START + frame::MAX_OVERHEAD + record::HEADER + record::TAG;
/// How many bytes go between two looks at what else there is: enough for few and large writes, and little enough for who
/// waits behind them. Four whole fragments.
pub(super) const BURST: usize = 64 * 1024;
