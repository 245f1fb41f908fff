//! The streams of a connection: a slab of flows, and which of them are uploads of the peer's calls.

use std::{fmt, task::Waker};

use bytes::Bytes;
use tokio::time::Instant;

use super::{
    calls::Answer,
    flow::{Ending, Flow, Owner, Receiving},
};
use crate::{
    CallId,
    error::ProtocolError,
    frame::{FrameKind, Head},
    session::{Cover, Outbound},
};

/// Names one use of a slot, so that a stale holder can never see its next use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Key {
    index: u32,
    generation: u32,
}

/// The flows.
#[derive(Default)]
pub(super) struct Flows {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// The flow that is the upload of the peer's call with this id.
    uploads: Vec<Option<Key>>,
    /// Those that may have items which wait to become a frame.
    unsent: Vec<Key>,
    /// How many bytes of such items there are.
    pub(super) unsent_bytes: usize,
    /// Where a chunk is encoded, kept for its memory.
    scratch: Vec<u8>,
}

#[derive(Debug, Default)]
struct Slot {
    generation: u32,
    flow: Option<Flow>,
}

impl fmt::Debug for Flows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.slots.iter().filter_map(|slot| slot.flow.as_ref())).finish()
    }
}

impl Flows {
    pub(super) fn insert(&mut self, flow: Flow) -> Key {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            // There are never more than calls in both directions, and their numbers are u32s.
            self.slots.len() as u32 - 1
        });
        let slot = &mut self.slots[index as usize];
        slot.flow = Some(flow);
        Key { index, generation: slot.generation }
    }

    pub(super) fn get(&mut self, key: Key) -> Option<&mut Flow> {
        let slot = self.slots.get_mut(key.index as usize)?;
        slot.flow.as_mut().filter(|_| slot.generation == key.generation)
    }

    /// A handle is gone. Returns the flow if it was the last.
    pub(super) fn release(&mut self, key: Key) -> Option<Flow> {
        let flow = self.get(key)?;
        flow.handles = flow.handles.saturating_sub(1);
        if flow.handles > 0 {
            return None;
        }
        let slot = &mut self.slots[key.index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(key.index);
        let flow = slot.flow.take()?;
        self.unsent_bytes -= flow.outgoing.as_ref().map_or(0, |outgoing| outgoing.pending.len());
        if let Owner::Peers(id) = flow.call
            && let Some(upload) = self.uploads.get_mut(id.get() as usize)
            && *upload == Some(key)
        {
            *upload = None;
        }
        Some(flow)
    }

    // Uploads of the peer's calls.

    /// A call of the peer's has an upload, of which `window` bytes may come.
    pub(super) fn expect_upload(&mut self, id: CallId, cover: Cover, window: usize) -> Key {
        let key = self.insert(Flow {
            call: Owner::Peers(id),
            cover,
            priority: None,
            incoming: Some(Receiving::new(window)),
            outgoing: None,
            end: None,
            handles: 1,
            reader: None,
            writer: None,
            deadline: None,
            position: 0,
        });
        let index = id.get() as usize;
        if index >= self.uploads.len() {
            self.uploads.resize(index + 1, None);
        }
        self.uploads[index] = Some(key);
        key
    }

    /// A call of the peer's has been answered, so that its upload is over.
    pub(super) fn upload_over(&mut self, id: CallId) -> Option<Waker> {
        let key = self.uploads.get_mut(id.get() as usize)?.take()?;
        let flow = self.get(key)?;
        flow.end.get_or_insert(Ending::Over);
        flow.reader.take()
    }

    /// Items or the end of an upload have come. What nobody takes any more may still be on its way, and is dropped.
    pub(super) fn upload(
        &mut self,
        id: CallId,
        cover: Cover,
        part: Upload,
        wakers: &mut Vec<Waker>,
    ) -> Result<(), ProtocolError> {
        let Some(Some(key)) = self.uploads.get(id.get() as usize).copied() else { return Ok(()) };
        let Some(flow) = self.get(key) else { return Ok(()) };
        if flow.cover.is_sealed() && !cover.is_sealed() {
            return Err(ProtocolError::Unsealed { what: "upload of a sealed request" });
        }
        if flow.end.is_some() {
            return Err(ProtocolError::BadFrame { what: "upload that goes on behind its end" });
        }
        match part {
            Upload::Items(items) => flow.push(items)?,
            Upload::End(body) => flow.end = Some(Ending::Answered(Answer::End(body))),
        }
        wakers.extend(flow.reader.take());
        Ok(())
    }

    // What waits to be sent.

    /// An empty buffer.
    pub(super) fn take_scratch(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.scratch)
    }

    /// Takes the buffer back.
    pub(super) fn keep_scratch(&mut self, mut scratch: Vec<u8>) {
        scratch.clear();
        if scratch.capacity() <= KEEP_SCRATCH {
            self.scratch = scratch;
        }
    }

    /// To be told that `n` bytes of items have been put behind those that wait in a flow.
    pub(super) fn note_unsent(&mut self, key: Key, n: usize) {
        self.unsent_bytes += n;
        let waiting = self.get(key).and_then(|flow| flow.outgoing.as_ref()).map(|o| o.pending.len());
        // Those that had some before are in the list.
        if waiting == Some(n) {
            self.unsent.push(key);
        }
    }

    /// Makes frames of all items that wait.
    pub(super) fn send_all(&mut self, out: &mut Outbound) {
        let mut unsent = std::mem::take(&mut self.unsent);
        for key in unsent.drain(..) {
            self.send(key, out);
        }
        self.unsent = unsent;
    }

    /// Makes a frame of the items that wait in one flow.
    pub(super) fn send(&mut self, key: Key, out: &mut Outbound) {
        let Some(flow) = self.get(key) else { return };
        let (Owner::Ours(call), Some(outgoing)) = (flow.call, &mut flow.outgoing) else { return };
        let n = outgoing.pending.len();
        if n == 0 {
            return;
        }
        // Those of a call that is over would be dropped by the peer.
        if flow.end.is_none() && !outgoing.stopped {
            let head = Head::of_upload(FrameKind::Item, call.id());
            let (priority, cover, pending) = (flow.priority, flow.cover, &outgoing.pending);
            let appended = out.append_items_from(outgoing.compress, priority, cover, head, pending);
            if let Err(error) = appended {
                tracing::error!(%error, "items cannot be sent");
            }
        }
        outgoing.pending.clear();
        self.unsent_bytes -= n;
    }

    // All of them.

    /// Collects the wakers of those whose deadline has passed, and returns the earliest of the others'.
    pub(super) fn expire(&mut self, now: Instant, wakers: &mut Vec<Waker>) -> Option<Instant> {
        let mut next: Option<Instant> = None;
        for flow in self.slots.iter_mut().filter_map(|slot| slot.flow.as_mut()) {
            let Some(deadline) = flow.deadline.filter(|_| flow.end.is_none()) else { continue };
            if deadline <= now {
                wakers.extend(flow.reader.take().into_iter().chain(flow.writer.take()));
            } else {
                next = Some(next.map_or(deadline, |n| n.min(deadline)));
            }
        }
        next
    }

    /// The connection has ended with `written` bytes handed to the link.
    pub(super) fn fail_all(&mut self, written: u64, wakers: &mut Vec<Waker>) {
        self.unsent.clear();
        self.unsent_bytes = 0;
        for flow in self.slots.iter_mut().filter_map(|slot| slot.flow.as_mut()) {
            let maybe_executed = flow.position < written;
            flow.end.get_or_insert(Ending::Answered(Answer::Lost { maybe_executed }));
            if let Some(outgoing) = &mut flow.outgoing {
                outgoing.pending = Vec::new();
            }
            wakers.extend(flow.reader.take().into_iter().chain(flow.writer.take()));
        }
    }
}

impl Flow {
    /// Takes items in, if anybody still takes them.
    pub(super) fn push(&mut self, items: Bytes) -> Result<(), ProtocolError> {
        let Some(incoming) = &mut self.incoming else {
            return Err(ProtocolError::BadFrame { what: "items of a call that has none" });
        };
        if items.is_empty() {
            return Err(ProtocolError::BadFrame { what: "no items" });
        }
        incoming.push(items).map_err(|_| ProtocolError::BadFrame { what: "items beyond the credit" })
    }
}

/// A buffer that has grown beyond this is not kept, in bytes.
const KEEP_SCRATCH: usize = 16 * 1024;

/// A part of the upload of a call of the peer's.
pub(super) enum Upload {
    Items(Bytes),
    End(Bytes),
}
