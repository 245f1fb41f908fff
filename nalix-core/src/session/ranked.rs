//! Frames that are ranked by priority, while more waits than is written at a time.

use super::{
    Cover,
    fragments::BURST,
    outbound::{Appended, Outbound},
};
use crate::{
    error::EncodeError,
    frame::{self, Entries, FRAGMENT, FrameKind, Head, Metadata},
    packet::Priority,
    wire::{Writer, varint},
};

impl Outbound {
    /// Lets frames be ranked by priority from the start. Otherwise they are from the first on that has a priority of its own,
    /// and cannot overtake what waits by then.
    pub fn set_ranked(&mut self) {
        self.ranked = true;
    }

    /// Whether anything waits for its turn: a message that goes in fragments, or frames that are ranked.
    #[inline]
    pub fn has_queued(&self) -> bool {
        self.queues.as_ref().is_some_and(|queues| !queues.is_empty())
    }

    /// How many bytes wait that a frame of this priority has to share the outbox with: those of its own priority, and those
    /// that nobody overtakes any more.
    pub fn len_for(&self, priority: Priority) -> usize {
        match &self.queues {
            None => self.buf.len(),
            Some(queues) => self.unranked_len() + queues.lane_len(priority),
        }
    }

    /// The most bytes that any priority has to share the outbox with.
    pub fn longest_len(&self) -> usize {
        self.unranked_len() + self.queues.as_ref().map_or(0, |queues| queues.longest_lane())
    }

    /// How many bytes wait, whatever of.
    pub fn waiting_len(&self) -> usize {
        let frames = self.queues.as_ref().map_or(0, |queues| queues.frames_len());
        self.buf.len() + frames + self.large_len()
    }

    fn unranked_len(&self) -> usize {
        self.buf.len() + self.large_len().saturating_sub(self.large_room)
    }

    /// Whether priorities count here, which they do from the first frame on that has one.
    #[inline]
    pub(super) fn is_ranked(&mut self, priority: Option<Priority>) -> bool {
        self.ranked |= Priority::is_special(priority);
        self.ranked
    }

    /// Whether a frame has to wait for its turn.
    ///
    /// Only what carries packets, answers and items does. What is about the connection or about a call, such as Cancel and
    /// Credit, is small, and goes before all that waits: it would be wrong for the next call of that id.
    pub(super) fn must_wait(&self, head: Head) -> bool {
        let carries = matches!(
            head.kind,
            FrameKind::Notify
                | FrameKind::Request
                | FrameKind::Reply
                | FrameKind::Error
                | FrameKind::Item
                | FrameKind::End
        );
        let is_waited = self.queues.as_ref().is_some_and(|queues| queues.frames_len() > 0);
        carries && (is_waited || self.buf.len() >= BURST)
    }

    /// Appends a frame that has to wait for its turn.
    #[cold]
    #[allow(clippy::too_many_arguments, reason = "each is another part of one frame")]
    pub(super) fn append_ranked(
        &mut self,
        limit: usize,
        priority: Option<Priority>,
        cover: Cover,
        head: Head,
        (metadata, entries): (Metadata, Option<&Entries>),
        hint: usize,
        write: impl FnOnce(&mut Writer<'_>),
    ) -> Result<Appended, EncodeError> {
        // By itself until it is known to be good: `write` is user code and may panic.
        let mut payload = Vec::with_capacity(hint);
        let mut w = Writer::new(&mut payload, limit);
        write(&mut w);
        if w.finish()? > FRAGMENT {
            return Ok(self.push_large(priority, cover, head, (metadata, entries), payload.into()));
        }
        let mut block = Vec::new();
        match entries {
            Some(entries) => metadata.encode_with(entries, &mut block),
            None if !metadata.is_empty() => metadata.encode(&mut block),
            None => {}
        }
        let head = Head { metadata: !block.is_empty(), ..head };
        let queues = self.queues.get_or_insert_default();
        queues.push_frame(priority.unwrap_or_default(), cover, head, |out| {
            frame::put_head(out, head);
            let mut len = [0; varint::MAX_LEN];
            let n = varint::put((block.len() + payload.len()) as u64, &mut len);
            out.extend_from_slice(&len[..n]);
            out.extend_from_slice(&block);
            out.extend_from_slice(&payload);
        });
        Ok(Appended { position: u64::MAX })
    }

    /// Runs `f`, whose frames do not wait for their turn.
    pub(crate) fn without_ranks<T>(&mut self, f: impl FnOnce(&mut Self) -> T) -> T {
        let ranked = std::mem::take(&mut self.ranked);
        let out = f(self);
        self.ranked |= ranked;
        out
    }
}
