//! Messages that go out in fragments: what waits, and whose turn it is.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::{
    CallId, Opcode,
    frame::{Entries, FRAGMENT, FrameKind, Head, Metadata, SLOTS},
    packet::Priority,
    session::Cover,
};

/// One queue for each priority, and as many slots: a queue sends one message at a time.
#[derive(Default)]
pub(super) struct Large {
    queues: [VecDeque<Message>; SLOTS],
    /// Bytes that wait, in all queues.
    bytes: usize,
    /// What each queue has earned and not spent.
    earned: [i32; SLOTS],
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
    /// The slot in which it has begun, if it has.
    pub(super) begun: Option<u32>,
}

impl Large {
    pub(super) fn push(&mut self, priority: Priority, message: Message) {
        self.bytes += message.payload.len();
        self.queues[slot(priority)].push_back(message);
    }

    /// How many bytes wait.
    pub(super) fn len(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The opcodes of the one-way packets that wait.
    pub(super) fn notifies(&self) -> impl Iterator<Item = Opcode> {
        let heads = self.queues.iter().flatten().map(|message| message.head);
        heads.filter(|head| head.kind == FrameKind::Notify).map(|head| head.opcode)
    }

    /// The fragment whose turn it is. [`Large::advance`] must follow.
    pub(super) fn next(&mut self) -> Option<Fragment<'_>> {
        let slot = self.turn()?;
        let message = self.queues[slot].front()?;
        let end = message.payload.len().min(message.at + FRAGMENT);
        Some(Fragment { slot: slot as u32, message, end })
    }

    /// The fragment of this slot up to `end` has gone. Returns the head of its message if that was the last.
    pub(super) fn advance(&mut self, slot: u32, end: usize) -> Option<Head> {
        let queue = &mut self.queues[slot as usize];
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
            .queues
            .iter()
            .enumerate()
            .find_map(|(slot, queue)| queue.iter().position(found).map(|place| (slot, place)))?;
        let message = self.queues[slot].remove(place)?;
        self.bytes -= message.payload.len() - message.at;
        Some(GivenUp { cover: message.cover, begun: (message.at > 0).then_some(slot as u32) })
    }

    /// The queue whose turn it is. Each that has something to send earns its weight, and the richest one pays for all: over
    /// time each gets its share, and none has to wait for another to be empty.
    fn turn(&mut self) -> Option<usize> {
        let mut sum = 0;
        let mut richest = None;
        for (slot, weight) in WEIGHTS.into_iter().enumerate() {
            if self.queues[slot].is_empty() {
                self.earned[slot] = 0;
                continue;
            }
            sum += weight;
            self.earned[slot] += weight;
            if richest.is_none_or(|other: usize| self.earned[other] < self.earned[slot]) {
                richest = Some(slot);
            }
        }
        let slot = richest?;
        self.earned[slot] -= sum;
        Some(slot)
    }
}

/// The priority of a message of this many bytes whose packet does not say one.
pub(super) fn by_size(len: usize) -> Priority {
    if len > BULK { Priority::Bulk } else { Priority::Normal }
}

const fn slot(priority: Priority) -> usize {
    match priority {
        Priority::Control => 0,
        Priority::High => 1,
        Priority::Normal => 2,
        Priority::Bulk => 3,
    }
}

/// How many fragments of each priority go while all have something to send.
const WEIGHTS: [i32; SLOTS] = [8, 4, 2, 1];
/// Above this size a message is bulk by itself.
const BULK: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn message(fragments: usize) -> Message {
        let head = Head::plain(FrameKind::Notify);
        let payload = vec![0; FRAGMENT * fragments].into();
        Message { cover: Cover::Plain, head, metadata: Metadata::default(), entries: None, payload, at: 0 }
    }

    fn slots(large: &mut Large, n: usize) -> [usize; SLOTS] {
        let mut seen = [0; SLOTS];
        for _ in 0..n {
            let Some(Fragment { slot, end, .. }) = large.next() else { break };
            large.advance(slot, end);
            seen[slot as usize] += 1;
        }
        seen
    }

    #[test]
    fn bulk_gets_its_share_beside_endless_others() {
        let mut large = Large::default();
        for priority in [Priority::Control, Priority::High, Priority::Normal, Priority::Bulk] {
            large.push(priority, message(1_000));
        }
        for _ in 0..10 {
            assert_eq!(slots(&mut large, 15), [8, 4, 2, 1]);
        }
    }

    #[test]
    fn who_was_alone_for_long_owes_nothing_to_who_comes() {
        let mut large = Large::default();
        large.push(Priority::Bulk, message(1_000));
        assert_eq!(slots(&mut large, 500), [0, 0, 0, 500]);
        large.push(Priority::Normal, message(1_000));
        assert_eq!(slots(&mut large, 30), [0, 0, 20, 10]);
    }

    #[test]
    fn what_waits_is_counted_until_it_has_gone_or_is_given_up() {
        let mut large = Large::default();
        for id in 0..3 {
            let head = Head::request(CallId::new(id), crate::Opcode::new(0x1001));
            large.push(Priority::Bulk, Message { head, ..message(3) });
        }
        slots(&mut large, 1);
        assert_eq!(large.len(), 8 * FRAGMENT);
        assert!(large.give_up(false, CallId::new(0)).is_none(), "it is no answer");
        assert_eq!(large.give_up(true, CallId::new(0)).unwrap().begun, Some(3));
        assert_eq!(large.give_up(true, CallId::new(2)).unwrap().begun, None);
        assert_eq!(large.len(), 3 * FRAGMENT);
        slots(&mut large, 10);
        assert!(large.is_empty() && large.next().is_none());
    }
}
