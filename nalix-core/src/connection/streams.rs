//! What the driver does with frames of streams, and when it lets streams go on.

use std::sync::Arc;

use super::{answers::Way, driver::Driver, inbox::Ticket, running::Rooms, writing::Short};
use crate::{
    controller::{Call, CallUpload, Items, Reply},
    error::ProtocolError,
    frame::{FRAGMENT, FrameKind, Head},
    link::Link,
    packet::Priority,
    peer::{Answer, Arrival},
    session::{Cover, Frame},
    wire::{Limits, Reader},
};

impl<L: Link> Driver<L> {
    /// Handles an Item, End or Credit frame, or the Cancel of an upload.
    pub(super) fn handle_stream_frame(&mut self, frame: &mut Frame) -> Result<(), ProtocolError> {
        let Frame { kind, upload, id, sealed, .. } = *frame;
        let (payload, entries) = (std::mem::take(&mut frame.payload), frame.entries.take());
        let cover = Cover::of(sealed);
        let arrival = match (kind, upload) {
            (FrameKind::Item, false) => Arrival::Items(payload),
            (FrameKind::Item, true) => Arrival::Chunks(payload),
            (FrameKind::End, false) => Arrival::Answer(Answer::End(payload).with(entries)),
            (FrameKind::End, true) => Arrival::UploadEnd(payload),
            (FrameKind::Credit, _) => {
                self.check_cover(cover, "credit")?;
                let n = read_credit(&payload)?;
                if !upload {
                    return self.inbox.grant(id, n);
                }
                Arrival::Credit(n)
            }
            _ => {
                self.check_cover(cover, "cancel")?;
                if !payload.is_empty() {
                    return Err(ProtocolError::BadFrame { what: "cancel with a payload" });
                }
                Arrival::Stop
            }
        };
        self.answers.push((id, cover, arrival));
        Ok(())
    }

    /// Gives a call what its packet's streams need.
    pub(super) fn add_streams(&mut self, call: Call, ticket: &Ticket) -> Call {
        let route = call.route();
        let items = route.streams().then(|| Arc::new(Items::new(self.context.max_message())));
        let upload = ticket.id.filter(|_| ticket.uploads).map(|id| {
            // What has come for an earlier call of this id must not reach this one.
            self.deliver_answers();
            CallUpload::new(self.shared.expect_upload(id, ticket.cover))
        });
        call.with_streams(items, upload)
    }

    /// Sends items of a stream of which more follow.
    pub(super) fn send_items(&mut self, way: Way, reply: Reply) {
        let Way { id, cover, priority, compress } = way;
        let head = Head::of_call(FrameKind::Item, id);
        // A stream makes no batch that is too large.
        drop(self.append_reply(|out| out.append_items_from(compress, priority, cover, head, reply.body())));
        self.inbox.running().recycle(reply.into_buffer());
    }

    /// Goes on with items that go in parts, as far as there is credit and room.
    pub(super) fn send_parts(&mut self) {
        if !self.inbox.running().has_parts() || self.phase.is_closing() {
            return;
        }
        let most = self.item_room();
        let Self { inbox, shared, backlog, short_items, written, extra_items, .. } = self;
        inbox.running().send_parts(|ticket, items| {
            let Way { id, cover, priority, compress } = ticket.way()?;
            let of = priority.unwrap_or_default();
            if *backlog >= most && shared.backlog_for(of) >= most {
                if !extra_items.is_due(*written) {
                    short_items.set(of);
                    return None;
                }
                extra_items.taken(*written);
            }
            let head = Head::of_call(FrameKind::Item, id);
            *backlog =
                shared.append(|out| drop(out.append_items_from(compress, priority, cover, head, items)));
            Some(*backlog < most)
        });
        self.must_look = true;
    }

    /// Lets streams go on as far as there is room for their items.
    pub(super) fn feed_streams(&mut self) {
        if !self.inbox.running().is_hungry() || self.phase.is_closing() {
            return;
        }
        let most = self.item_room();
        let mut rooms = Rooms::One(most.saturating_sub(self.backlog));
        if rooms == Rooms::One(0) {
            // What waits may be of one priority, while the others have room.
            let room = |priority| most.saturating_sub(self.shared.backlog_for(priority));
            rooms = Rooms::Each(Priority::ALL.map(room));
            if self.extra_items.is_due(self.written) {
                rooms = rooms.at_least(FRAGMENT);
                self.extra_items.taken(self.written);
            }
        }
        self.short_items |= self.inbox.running().feed(rooms);
    }

    /// Whether streams that had to wait for room can go on. Asked once a turn.
    pub(super) fn can_resume_streams(&mut self) -> bool {
        if self.phase.is_closing() {
            return false;
        }
        let most = self.item_room();
        let short = std::mem::take(&mut self.short_items);
        let is_short = short != Short::default();
        let resume = if self.backlog < most {
            is_short || self.inbox.running().has_parts()
        } else {
            (self.extra_items.is_due(self.written) && (is_short || self.inbox.running().has_parts()))
                || Priority::ALL.into_iter().any(|p| short.is_set(p) && self.shared.backlog_for(p) < most)
        };
        if !resume {
            self.short_items = short;
        }
        resume
    }

    /// How many bytes may wait to be written for streams to go on. Less than for calls, since credit can be much, and
    /// whatever comes behind the items has to wait for them.
    fn item_room(&self) -> usize {
        self.options.outbox.min(ITEM_ROOM)
    }
}

/// See [`Driver::item_room`].
const ITEM_ROOM: usize = 256 * 1024;

fn read_credit(payload: &bytes::Bytes) -> Result<u64, ProtocolError> {
    let bad = ProtocolError::BadFrame { what: "bad credit" };
    let mut r = Reader::from_bytes(payload, &Limits::DEFAULT);
    match r.varint() {
        Ok(n) if n > 0 && r.is_empty() => Ok(n),
        _ => Err(bad),
    }
}
