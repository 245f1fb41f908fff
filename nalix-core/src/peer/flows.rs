//! The streams of a connection: a slab of flows, and which of them are uploads of the peer's calls.

use std::{fmt, task::Waker};

use bytes::Bytes;
use tokio::time::Instant;

use super::{
    budget::Budget,
    calls::Answer,
    flow::{Ending, Flow, Owner, Receiving, Sending},
};
use crate::{
    CallId,
    error::ProtocolError,
    frame::{FrameKind, Head},
    packet::Priority,
    session::{Cover, Outbound, max_items},
};

/// Names one use of a slot, so that a stale holder can never see its next use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Key {
    index: u32,
    generation: u32,
}

/// The flows.
pub(super) struct Flows {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// The flow that is the upload of the peer's call with this id.
    uploads: Vec<Option<Key>>,
    /// What their receiving halves may hold all together.
    pub(super) budget: Budget,
    /// Those that may have items which wait to become a frame, and have credit for them.
    unsent: Vec<Key>,
    /// How many bytes of such items there are. Those that wait for credit do not count: it may never come.
    unsent_bytes: usize,
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
    pub(super) fn new(budget: Budget) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            uploads: Vec::new(),
            budget,
            unsent: Vec::new(),
            unsent_bytes: 0,
            scratch: Vec::new(),
        }
    }

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
        self.unsent_bytes -= flow.outgoing.as_ref().map_or(0, Sending::sendable);
        if let Some(incoming) = &flow.incoming {
            self.budget.close(incoming.window(), matches!(flow.call, Owner::Ours(_)));
        }
        if let Owner::Peers(id) = flow.call
            && let Some(upload) = self.uploads.get_mut(id.get() as usize)
            && *upload == Some(key)
        {
            *upload = None;
        }
        Some(flow)
    }

    /// Notes that `n` bytes of a flow have been consumed, and when to be told of more. Returns whose call it is and how much
    /// to grant it, if it is worth a frame.
    pub(super) fn consume(&mut self, key: Key, n: usize, tell_at: &mut usize) -> Option<(Owner, u64)> {
        let slot = self.slots.get_mut(key.index as usize).filter(|slot| slot.generation == key.generation)?;
        let flow = slot.flow.as_mut()?;
        let incoming = flow.incoming.as_mut()?;
        // What has ended is granted nothing, and needs no larger window.
        if flow.end.is_some() {
            return None;
        }
        let grant = incoming.consume(n, &mut self.budget, Instant::now);
        *tell_at = incoming.until_grant();
        grant.map(|grant| (flow.call, grant))
    }

    // Uploads of the peer's calls.

    /// A call of the peer's has an upload.
    pub(super) fn expect_upload(&mut self, id: CallId, cover: Cover, now: Instant) -> Key {
        let key = self.insert(Flow {
            call: Owner::Peers(id),
            cover,
            priority: None,
            incoming: Some(Receiving::new(self.budget.first(), now)),
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

    /// How many bytes of items wait to become a frame, and have credit for it.
    #[inline]
    pub(super) fn unsent(&self) -> usize {
        self.unsent_bytes
    }

    /// Whether some flow may have items that can become a frame.
    #[inline]
    pub(super) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Changes the sending half of a flow, and notes whether it has more or less to send than before.
    #[inline]
    pub(super) fn change<T>(&mut self, key: Key, f: impl FnOnce(&mut Sending) -> T) -> Option<T> {
        let slot = self.slots.get_mut(key.index as usize).filter(|slot| slot.generation == key.generation)?;
        let outgoing = slot.flow.as_mut()?.outgoing.as_mut()?;
        let before = outgoing.sendable();
        let result = f(outgoing);
        let after = outgoing.sendable();
        self.unsent_bytes = self.unsent_bytes - before + after;
        if outgoing.is_ready() && !std::mem::replace(&mut outgoing.listed, true) {
            self.unsent.push(key);
        }
        Some(result)
    }

    /// The request of a flow, which went in fragments, has gone: its items may follow.
    pub(super) fn opened(&mut self, key: Key, position: u64) {
        if let Some(flow) = self.get(key) {
            flow.position = position;
        }
        self.change(key, |outgoing| outgoing.held = false);
    }

    /// A flow is over, if it was not before: what waits to be sent is dropped.
    pub(super) fn end(&mut self, key: Key, ending: Ending) {
        let Some(flow) = self.get(key) else { return };
        flow.end.get_or_insert(ending);
        self.change(key, |outgoing| {
            outgoing.discard();
            outgoing.end = None;
        });
    }

    /// Makes frames of the items that wait and have credit. Of those that wait for long, some are left for the next time, so
    /// that others get their turn.
    pub(super) fn send_all(&mut self, out: &mut Outbound) {
        let mut unsent = std::mem::take(&mut self.unsent);
        for key in unsent.drain(..) {
            self.change(key, |outgoing| outgoing.listed = false);
            self.send(key, out);
        }
        if self.unsent.is_empty() {
            self.unsent = unsent;
        }
    }

    /// Makes frames of all that wait and have credit: nothing comes behind them.
    pub(super) fn send_rest(&mut self, out: &mut Outbound) {
        while self.has_unsent() {
            self.send_all(out);
        }
    }

    /// Makes frames of the items that wait in one flow and have credit, and of its end if that comes next.
    pub(super) fn send(&mut self, key: Key, out: &mut Outbound) {
        let Some(flow) = self.get(key) else { return };
        let (Owner::Ours(call), cover, priority) = (flow.call, flow.cover, flow.priority) else { return };
        let head = Head::of_upload(FrameKind::Item, call.id());
        let most = max_items(out.max_message());
        self.change(key, |outgoing| {
            let compress = outgoing.compress;
            for _ in 0..BURST {
                if outgoing.sendable() == 0 {
                    break;
                }
                let appended = outgoing
                    .send(most, |items| out.append_items_from(compress, priority, cover, head, items));
                if let Err(error) = appended {
                    tracing::error!(%error, "items cannot be sent");
                }
            }
            if outgoing.is_ready()
                && outgoing.waiting() == 0
                && let Some(end) = outgoing.end.take()
            {
                put_end(out, (priority, cover), call.id(), &end);
            }
        });
    }

    /// Ends an upload: behind the items that wait, if some do.
    pub(super) fn finish(&mut self, key: Key, end: Vec<u8>) {
        let flow = self.get(key).filter(|flow| flow.end.is_none());
        let finished = flow.and_then(|flow| flow.outgoing.as_mut()).map(|outgoing| &mut outgoing.finished);
        // Once only.
        let Some(false) = finished.map(|finished| std::mem::replace(finished, true)) else { return };
        self.change(key, |outgoing| outgoing.end = Some(end));
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
                outgoing.discard();
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

/// Appends the end of an upload.
fn put_end(out: &mut Outbound, (priority, cover): (Option<Priority>, Cover), id: CallId, end: &[u8]) {
    let head = Head::of_upload(FrameKind::End, id);
    // A status is never too large.
    drop(out.append_error_as(priority, cover, head, None, end.len(), |w| w.put(end)));
}

/// How many frames one upload makes before others get their turn.
const BURST: usize = 4;
/// A buffer that has grown beyond this is not kept, in bytes.
const KEEP_SCRATCH: usize = 16 * 1024;

/// A part of the upload of a call of the peer's.
pub(super) enum Upload {
    Items(Bytes),
    End(Bytes),
}
