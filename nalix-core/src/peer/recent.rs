//! One-way packets of which the oldest are dropped if too many wait, until they are written.

use std::collections::VecDeque;

use super::waiting::{Bounds, Waiting};
use crate::{
    Opcode,
    frame::FRAGMENT,
    packet::{Encoded, Packet},
    session::Outbound,
};

/// The packets that wait, in order. They take no room in the outbox and have bounds of their own.
#[derive(Debug, Default)]
pub(super) struct Recent {
    queue: Option<Box<Queue>>,
    left_out: u64,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Waiting>,
    bytes: usize,
}

impl Recent {
    /// Puts a packet behind those that wait, and drops as many of the oldest as there is no room for with it. Returns how many;
    /// `None` if there is never room for any. One that is alone may be longer than the bound on bytes.
    pub(super) fn put<P: Packet>(&mut self, packet: &Encoded<P>, bounds: Bounds) -> Option<usize> {
        if bounds.packets == 0 || bounds.bytes == 0 {
            self.left_out += 1;
            return None;
        }
        let Queue { waiting, bytes } = &mut **self.queue.get_or_insert_default();
        *bytes += packet.payload().len();
        waiting.push_back(Waiting::of(packet));
        let mut dropped = 0;
        while waiting.len() > 1 && (waiting.len() > bounds.packets || *bytes > bounds.bytes) {
            *bytes -= waiting.pop_front().map_or(0, |oldest| oldest.payload.len());
            dropped += 1;
        }
        self.left_out += dropped as u64;
        Some(dropped)
    }

    /// Appends those whose turn has come; nothing can drop them then.
    ///
    /// One that goes in fragments waits here for room, and while such a one goes, or waits, others of its opcode do: they could
    /// not be dropped there, and would come to the peer before it.
    pub(super) fn append_to(&mut self, out: &mut Outbound) {
        let Some(queue) = &mut self.queue else { return };
        let mut going: Vec<Opcode> = out.large_notifies().collect();
        let mut held = VecDeque::new();
        for waiting in queue.waiting.drain(..) {
            let len = waiting.len_for(out);
            let is_large = len > FRAGMENT;
            let must_wait = going.contains(&waiting.opcode) || (is_large && !out.has_large_room(len));
            if is_large || must_wait {
                going.push(waiting.opcode);
            }
            if must_wait {
                held.push_back(waiting);
            } else {
                waiting.append_to(out);
            }
        }
        queue.bytes = held.iter().map(|waiting| waiting.payload.len()).sum();
        if !held.is_empty() {
            queue.waiting = held;
        } else if queue.waiting.capacity() > KEEP {
            self.queue = None;
        }
    }

    /// Appends all that wait, as nothing comes behind them.
    pub(super) fn append_all_to(&mut self, out: &mut Outbound) {
        for waiting in self.queue.take().into_iter().flat_map(|queue| queue.waiting) {
            waiting.append_to(out);
        }
    }

    /// Drops those that wait.
    pub(super) fn clear(&mut self) {
        self.queue = None;
    }

    /// How many bytes those have that wait.
    pub(super) fn bytes(&self) -> usize {
        self.queue.as_ref().map_or(0, |queue| queue.bytes)
    }

    /// Whether none waits.
    pub(super) fn is_empty(&self) -> bool {
        self.queue.as_ref().is_none_or(|queue| queue.waiting.is_empty())
    }

    /// How many have been dropped before they were written, or found no room at all.
    pub(super) fn left_out(&self) -> u64 {
        self.left_out
    }
}

/// A queue that has grown beyond this for once is not kept.
const KEEP: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        packet,
        session::Inbound,
        wire::{from_slice, varint},
    };

    #[packet(opcode = 0x3e03)]
    struct RecentText {
        text: String,
    }

    #[packet(opcode = 0x3e04)]
    struct RecentMark;

    const BOUNDS: Bounds = Bounds { packets: 3, bytes: 100 };

    /// Of so many bytes on the wire.
    fn text(len: usize) -> Encoded<RecentText> {
        let text = "x".repeat(len - varint::len(len as u64 - 1));
        let encoded = Encoded::new(&RecentText { text }).unwrap();
        assert_eq!(encoded.payload().len(), len);
        encoded
    }

    fn mark() -> Encoded<RecentMark> {
        Encoded::new(&RecentMark).unwrap()
    }

    /// Everything is written in turns, each after those that wait have been looked at. `None` is a mark.
    fn written(recent: &mut Recent, out: &mut Outbound) -> Vec<Option<usize>> {
        let mut inbound = Inbound::new(usize::MAX);
        inbound.establish(usize::MAX);
        let mut lens = Vec::new();
        while !recent.is_empty() || !out.is_empty() {
            recent.append_to(out);
            inbound.buffer().extend_from_slice(&out.take(Vec::new()));
            while let Some(frame) = inbound.next_frame().unwrap() {
                let text =
                    || from_slice::<String>(&frame.payload).map(drop).map(|()| frame.payload.len()).unwrap();
                lens.push((frame.opcode.get() == 0x3e03).then(text));
            }
        }
        lens
    }

    #[test]
    fn the_oldest_go_when_there_are_too_many_and_the_rest_keeps_its_order() {
        let mut recent = Recent::default();
        for len in [11, 12, 13] {
            assert_eq!(recent.put(&text(len), BOUNDS), Some(0));
        }
        assert_eq!(recent.put(&text(14), BOUNDS), Some(1));
        assert_eq!(recent.put(&mark(), BOUNDS), Some(1));
        let mut out = Outbound::new(usize::MAX);
        assert_eq!(written(&mut recent, &mut out), [Some(13), Some(14), None]);
        assert_eq!(recent.left_out(), 2);
        assert_eq!(written(&mut recent, &mut out), []);
        assert_eq!(recent.put(&text(15), BOUNDS), Some(0), "those that are written take no room");
        assert_eq!(written(&mut recent, &mut out), [Some(15)]);
    }

    #[test]
    fn a_long_one_drops_as_many_as_it_takes_and_is_never_dropped_for_its_own_length() {
        let mut recent = Recent::default();
        for len in [40, 40, 20] {
            assert_eq!(recent.put(&text(len), BOUNDS), Some(0), "100 bytes");
        }
        assert_eq!(recent.put(&text(41), BOUNDS), Some(2));
        assert_eq!(recent.put(&text(500), BOUNDS), Some(2), "all the others");
        assert_eq!(recent.put(&mark(), BOUNDS), Some(1), "which is too long for any company");
        assert_eq!(recent.left_out(), 5);
        assert_eq!(written(&mut recent, &mut Outbound::new(usize::MAX)), [None]);
    }

    #[test]
    fn without_any_room_all_are_left_out() {
        let mut recent = Recent::default();
        assert_eq!(recent.put(&mark(), Bounds { packets: 0, ..BOUNDS }), None);
        assert_eq!(recent.put(&mark(), Bounds { bytes: 0, ..BOUNDS }), None);
        assert!(recent.is_empty());
        assert_eq!(recent.left_out(), 2);
    }

    #[test]
    fn what_waits_for_fragments_can_be_dropped_and_holds_up_its_own_kind_only() {
        let bounds = Bounds { packets: 3, bytes: usize::MAX };
        let mut recent = Recent::default();
        let mut out = Outbound::new(usize::MAX);
        assert_eq!(recent.put(&text(10 * FRAGMENT), bounds), Some(0));
        recent.append_to(&mut out);
        assert!(recent.is_empty(), "it is on its way");
        assert_eq!(recent.put(&text(2 * FRAGMENT), bounds), Some(0));
        assert_eq!(recent.put(&text(3 * FRAGMENT), bounds), Some(0));
        assert_eq!(recent.put(&text(7), bounds), Some(0));
        recent.append_to(&mut out);
        assert_eq!(recent.put(&mark(), bounds), Some(1), "the oldest that waits");
        let lens = written(&mut recent, &mut out);
        let texts: Vec<_> = lens.iter().flatten().copied().collect();
        assert_eq!(texts, [10 * FRAGMENT, 3 * FRAGMENT, 7]);
        assert_eq!(lens[0], None, "it is of another kind");
    }

    #[test]
    fn all_go_before_a_goodbye() {
        let mut recent = Recent::default();
        let mut out = Outbound::new(usize::MAX);
        out.set_large_room(0);
        let bounds = Bounds { packets: 9, bytes: usize::MAX };
        for _ in 0..2 {
            assert_eq!(recent.put(&text(2 * FRAGMENT), bounds), Some(0));
        }
        recent.append_to(&mut out);
        assert!(!recent.is_empty());
        recent.append_all_to(&mut out);
        assert!(recent.is_empty());
        assert!(out.large_len() >= 4 * FRAGMENT);
    }
}
