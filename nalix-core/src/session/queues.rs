//! What waits for its turn: messages that go in fragments, and frames that have to be ranked.

use std::collections::VecDeque;

use bytes::Bytes;

use super::{
    Cover,
    lane::{self, Lane},
};
use crate::{
    CallId, Opcode,
    frame::{Entries, FRAGMENT, FrameKind, Head, Metadata, SLOTS},
    packet::Priority,
};

/// For each priority, a lane of frames and a queue of messages that do not fit one. As many queues as there are slots: each
/// sends one message at a time.
#[derive(Default)]
pub(super) struct Queues {
    lanes: [Lane; SLOTS],
    large: [VecDeque<Message>; SLOTS],
    /// Bytes of messages that wait, in all queues.
    bytes: usize,
    /// Bytes of frames that wait, in all lanes.
    frame_bytes: usize,
    /// How much each priority has sent, in bytes, divided by its weight. Whoever has sent least is next.
    sent: [u64; SLOTS],
    /// How many bytes of frames each priority has sent since its last fragment.
    since: [usize; SLOTS],
}

pub(super) struct Message {
    pub(super) cover: Cover,
    pub(super) head: Head,
    pub(super) metadata: Metadata,
    pub(super) entries: Option<Entries>,
    /// Shared with all others whom the same message is sent to.
    pub(super) payload: Bytes,
    /// How many bytes of it have gone.
    pub(super) at: usize,
    /// The lane whose frames it must not overtake, and how many have to have left that.
    pub(super) behind: (Priority, u64),
}

/// What is to be sent next.
pub(super) enum Turn<'a> {
    Frame(lane::Next<'a>),
    /// [`Queues::advance`] must follow.
    Fragment(Fragment<'a>),
}

/// A fragment that is to be sent.
pub(super) struct Fragment<'a> {
    pub(super) slot: u32,
    pub(super) message: &'a Message,
    /// The bytes from `message.at` to here are its own.
    pub(super) end: usize,
}

/// A message that has been taken back.
#[derive(Debug)]
pub(super) struct GivenUp {
    pub(super) cover: Cover,
    /// What the other frames about its call go as.
    pub(super) priority: Priority,
    /// The slot in which it has begun, if it has.
    pub(super) begun: Option<u32>,
}

impl Queues {
    /// Adds a message that goes in fragments. `lane` is where frames about its call go.
    pub(super) fn push(&mut self, priority: Priority, lane: Priority, mut message: Message) {
        self.start(priority);
        message.behind = (lane, self.lanes[lane.index()].put);
        self.bytes += message.payload.len();
        self.large[priority.index()].push_back(message);
    }

    /// Adds a frame, which `write` appends.
    pub(super) fn push_frame(
        &mut self,
        priority: Priority,
        cover: Cover,
        head: Head,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        self.start(priority);
        let lane = &mut self.lanes[priority.index()];
        let before = lane.len();
        lane.push(cover, head, write);
        self.frame_bytes += lane.len() - before;
    }

    /// How many bytes of messages wait.
    #[inline]
    pub(super) fn large_len(&self) -> usize {
        self.bytes
    }

    /// How many bytes of frames wait.
    #[inline]
    pub(super) fn frames_len(&self) -> usize {
        self.frame_bytes
    }

    /// How many bytes of frames of one priority wait.
    pub(super) fn lane_len(&self, priority: Priority) -> usize {
        self.lanes[priority.index()].len()
    }

    /// How many bytes of frames wait of the priority that has most of them.
    pub(super) fn longest_lane(&self) -> usize {
        self.lanes.iter().map(Lane::len).max().unwrap_or_default()
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.bytes == 0 && self.frame_bytes == 0
    }

    /// The opcodes of the one-way packets that go in fragments.
    pub(super) fn notifies(&self) -> impl Iterator<Item = Opcode> {
        let heads = self.large.iter().flatten().map(|message| message.head);
        heads.filter(|head| head.kind == FrameKind::Notify).map(|head| head.opcode)
    }

    /// Whose turn it is.
    pub(super) fn next(&mut self) -> Option<Turn<'_>> {
        let priority = self.turn()?;
        let slot = priority.index();
        let may_go_on = self.fragment_is_ready(priority);
        // In turns, when there are both: each gets half of the bytes.
        if !self.lanes[slot].is_empty() && (!may_go_on || self.since[slot] < FRAGMENT) {
            let next = self.lanes[slot].pop()?;
            let len = next.bytes.len();
            self.frame_bytes -= len;
            self.since[slot] = self.since[slot].saturating_add(len);
            self.sent[slot] += cost(priority, len);
            return Some(Turn::Frame(next));
        }
        let message = self.large[slot].front()?;
        let end = message.payload.len().min(message.at + FRAGMENT);
        self.since[slot] = 0;
        self.sent[slot] += cost(priority, end - message.at);
        Some(Turn::Fragment(Fragment { slot: slot as u32, message, end }))
    }

    /// The fragment of this slot up to `end` has gone. Returns the head of its message if that was the last.
    pub(super) fn advance(&mut self, slot: u32, end: usize) -> Option<Head> {
        let queue = &mut self.large[slot as usize];
        let message = queue.front_mut()?;
        self.bytes -= end - message.at;
        message.at = end;
        if end < message.payload.len() {
            return None;
        }
        queue.pop_front().map(|message| message.head)
    }

    /// Takes a message about a call back: the request, or else the answer to one of the peer's.
    pub(super) fn give_up(&mut self, request: bool, id: CallId) -> Option<GivenUp> {
        let found = |message: &Message| {
            message.head.id == id
                && match message.head.kind {
                    FrameKind::Request => request,
                    FrameKind::Reply | FrameKind::Error => !request,
                    _ => false,
                }
        };
        let (slot, place) = self
            .large
            .iter()
            .enumerate()
            .find_map(|(slot, queue)| queue.iter().position(found).map(|place| (slot, place)))?;
        let message = self.large[slot].remove(place)?;
        self.bytes -= message.payload.len() - message.at;
        let begun = (message.at > 0).then_some(slot as u32);
        Some(GivenUp { cover: message.cover, priority: message.behind.0, begun })
    }

    /// Takes frames back: what a call of ours has in the lanes of its upload, and with `request` its request. Returns whether
    /// that was there.
    pub(super) fn forget(&mut self, id: CallId, request: bool) -> bool {
        if self.frame_bytes == 0 {
            return false;
        }
        let mut found = false;
        for lane in &mut self.lanes {
            found |= lane.forget(id, request);
        }
        self.frame_bytes = self.lanes.iter().map(Lane::len).sum();
        found
    }

    /// Drops all messages that go in fragments.
    pub(super) fn drop_large(&mut self) {
        self.large = Default::default();
        self.bytes = 0;
    }

    /// A priority that had nothing to send owes nothing to those that had, nor they to it.
    fn start(&mut self, priority: Priority) {
        if self.has(priority) {
            return;
        }
        let others = Priority::ALL.into_iter().filter(|&other| self.has(other));
        let least = others.map(|other| self.sent[other.index()]).min();
        let sent = &mut self.sent[priority.index()];
        *sent = (*sent).max(least.unwrap_or_default());
    }

    /// Whether something of this priority waits.
    fn has(&self, priority: Priority) -> bool {
        let slot = priority.index();
        !self.lanes[slot].is_empty() || !self.large[slot].is_empty()
    }

    /// Whether the first message of a priority may go on, or start.
    fn fragment_is_ready(&self, priority: Priority) -> bool {
        self.large[priority.index()].front().is_some_and(|message| {
            let (lane, put) = message.behind;
            let lane = &self.lanes[lane.index()];
            lane.is_empty() || lane.left >= put
        })
    }

    /// The priority whose turn it is. Over time each gets its share, and none has to wait for another to be done.
    fn turn(&self) -> Option<Priority> {
        let ready = |priority: &Priority| {
            !self.lanes[priority.index()].is_empty() || self.fragment_is_ready(*priority)
        };
        Priority::ALL.into_iter().filter(ready).min_by_key(|priority| self.sent[priority.index()])
    }
}

/// The priority of a message of this many bytes whose packet does not say one.
pub(super) fn by_size(len: usize) -> Priority {
    if len > BULK { Priority::Bulk } else { Priority::Normal }
}

/// What sending so many bytes costs: the less, the more urgent they are.
fn cost(priority: Priority, len: usize) -> u64 {
    (len as u64) << priority.index()
}

/// Above this size a message is bulk by itself.
const BULK: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn message(fragments: usize) -> Message {
        let head = Head::plain(FrameKind::Notify);
        let payload = vec![0; FRAGMENT * fragments].into();
        let behind = (Priority::Normal, 0);
        Message {
            cover: Cover::Plain,
            head,
            metadata: Metadata::default(),
            entries: None,
            payload,
            at: 0,
            behind,
        }
    }

    /// The priorities of the next `n` fragments or frames, the latter as the first byte of the frame plus 10.
    fn next(queues: &mut Queues, n: usize) -> Vec<usize> {
        let mut seen = Vec::new();
        while seen.len() < n {
            let (slot, end) = match queues.next() {
                None => break,
                Some(Turn::Frame(frame)) => {
                    seen.push(10 + usize::from(frame.bytes[0]));
                    continue;
                }
                Some(Turn::Fragment(fragment)) => (fragment.slot, fragment.end),
            };
            queues.advance(slot, end);
            seen.push(slot as usize);
        }
        seen
    }

    fn slots(queues: &mut Queues, n: usize) -> [usize; SLOTS] {
        let seen = next(queues, n);
        std::array::from_fn(|slot| seen.iter().filter(|&&other| other == slot || other == slot + 10).count())
    }

    fn frame(queues: &mut Queues, priority: Priority, len: usize) {
        let head = Head::notify(Opcode::new(0x3001));
        let byte = priority.index() as u8;
        queues.push_frame(priority, Cover::Plain, head, |out| out.resize(out.len() + len, byte));
    }

    #[test]
    fn bulk_gets_its_share_beside_endless_others() {
        let mut queues = Queues::default();
        for priority in Priority::ALL {
            queues.push(priority, priority, message(1_000));
        }
        for _ in 0..10 {
            assert_eq!(slots(&mut queues, 15), [8, 4, 2, 1]);
        }
    }

    #[test]
    fn frames_of_one_length_are_shared_as_exactly() {
        let mut queues = Queues::default();
        for priority in Priority::ALL {
            for _ in 0..200 {
                frame(&mut queues, priority, 50);
            }
        }
        for _ in 0..20 {
            assert_eq!(slots(&mut queues, 15), [8, 4, 2, 1]);
        }
        assert_eq!(queues.frames_len(), 500 * 50);
        assert_eq!(queues.lane_len(Priority::Bulk), 180 * 50);
        assert_eq!(queues.longest_lane(), 180 * 50);
    }

    /// Many small urgent ones are not made to wait for one large one each.
    #[test]
    fn lengths_count_not_numbers() {
        let mut queues = Queues::default();
        queues.push(Priority::Bulk, Priority::Bulk, message(10));
        for _ in 0..2_000 {
            frame(&mut queues, Priority::High, 64);
        }
        // Four times as many bytes.
        assert_eq!(slots(&mut queues, 1_025), [0, 1_024, 0, 1]);
        assert_eq!(slots(&mut queues, 977)[1], 976);
    }

    #[test]
    fn who_was_alone_for_long_owes_nothing_to_who_comes() {
        let mut queues = Queues::default();
        queues.push(Priority::Bulk, Priority::Bulk, message(1_000));
        assert_eq!(slots(&mut queues, 500), [0, 0, 0, 500]);
        queues.push(Priority::Normal, Priority::Normal, message(1_000));
        assert_eq!(slots(&mut queues, 30), [0, 0, 20, 10]);
    }

    /// Coming and going does not win more than staying.
    #[test]
    fn who_comes_again_and_again_gets_no_more_than_its_share() {
        let mut queues = Queues::default();
        for _ in 0..1_000 {
            frame(&mut queues, Priority::Normal, 50);
        }
        let mut bulk = 0;
        for _ in 0..100 {
            frame(&mut queues, Priority::Bulk, 50);
            bulk += slots(&mut queues, 3)[3];
        }
        assert_eq!(bulk, 100);
    }

    #[test]
    fn frames_and_fragments_of_one_priority_take_turns() {
        let mut queues = Queues::default();
        queues.push(Priority::High, Priority::High, message(3));
        for _ in 0..3 * FRAGMENT / 128 {
            frame(&mut queues, Priority::High, 64);
        }
        let seen = next(&mut queues, usize::MAX);
        let places: Vec<_> = (0..seen.len()).filter(|&at| seen[at] == 1).collect();
        assert_eq!((places, seen.len()), (vec![256, 385, 386], 387));
    }

    /// The end of a stream must not come before its items, whatever its length.
    #[test]
    fn a_message_does_not_overtake_frames_that_were_there_before() {
        let mut queues = Queues::default();
        for _ in 0..FRAGMENT {
            frame(&mut queues, Priority::Normal, 8);
        }
        queues.push(Priority::Bulk, Priority::Normal, message(2));
        for _ in 0..10 {
            frame(&mut queues, Priority::Normal, 8);
        }
        let seen = next(&mut queues, usize::MAX);
        let first = seen.iter().position(|&slot| slot == 3).unwrap();
        assert!(first >= FRAGMENT, "{first}");
        assert_eq!(seen.len(), FRAGMENT + 12);
    }

    #[test]
    fn what_waits_is_counted_until_it_has_gone_or_is_given_up() {
        let mut queues = Queues::default();
        for id in 0..3 {
            let head = Head::request(CallId::new(id), crate::Opcode::new(0x1001));
            queues.push(Priority::Bulk, Priority::Bulk, Message { head, ..message(3) });
        }
        slots(&mut queues, 1);
        assert_eq!(queues.large_len(), 8 * FRAGMENT);
        assert!(queues.give_up(false, CallId::new(0)).is_none(), "it is no answer");
        assert_eq!(queues.give_up(true, CallId::new(0)).unwrap().begun, Some(3));
        assert_eq!(queues.give_up(true, CallId::new(2)).unwrap().begun, None);
        assert_eq!(queues.large_len(), 3 * FRAGMENT);
        slots(&mut queues, 10);
        assert!(queues.is_empty() && queues.next().is_none());
    }
}
