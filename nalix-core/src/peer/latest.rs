//! One-way packets of which only the latest counts, until they are written.

use std::collections::HashMap;

use super::{
    recent::Recent,
    waiting::{Bounds, Waiting},
};
use crate::{
    Opcode,
    frame::FRAGMENT,
    packet::{Encoded, Packet},
    session::Outbound,
};

/// The packets that wait, each in the place of its key. They take no room in the outbox and have bounds of their own. Beside them
/// wait those of which the oldest may go, with bounds of their own, too.
#[derive(Debug, Default)]
pub(super) struct Latest {
    table: Option<Box<Table>>,
    pub(super) recent: Recent,
    /// How many have been replaced before they were written, or had no room.
    left_out: u64,
}

#[derive(Debug, Default)]
struct Table {
    /// In the order in which their keys first came.
    waiting: Vec<(u64, Waiting)>,
    places: HashMap<(Opcode, u64), usize>,
    bytes: usize,
}

impl Latest {
    /// Puts a packet in the place of its key. Returns whether there was one for it.
    pub(super) fn put<P: Packet>(&mut self, key: u64, packet: &Encoded<P>, bounds: Bounds) -> bool {
        let table = self.table.get_or_insert_default();
        let payload = packet.payload();
        let place = table.places.get(&(P::OPCODE, key)).copied();
        let replaced = place.map_or(0, |at| table.waiting[at].1.payload.len());
        let bytes = table.bytes - replaced + payload.len();
        // One that is shorter than the one before always has its place, and so has one that is alone.
        let fits = bytes <= bounds.bytes || payload.len() <= replaced || bytes == payload.len();
        if !fits || (place.is_none() && table.waiting.len() >= bounds.packets) {
            self.left_out += 1;
            return false;
        }
        table.bytes = bytes;
        let waiting = Waiting::of(packet);
        match place {
            Some(at) => {
                self.left_out += 1;
                table.waiting[at].1 = waiting;
            }
            None => {
                table.places.insert((P::OPCODE, key), table.waiting.len());
                table.waiting.push((key, waiting));
            }
        }
        true
    }

    /// Appends those whose turn has come; nothing can replace them then.
    ///
    /// One that goes in fragments waits here for room, and while such a one goes, others of its opcode do: neither could be
    /// replaced there, and a later one could come to the peer first.
    pub(super) fn append_to(&mut self, out: &mut Outbound) {
        self.recent.append_to(out);
        let Some(table) = &mut self.table else { return };
        let mut going: Vec<Opcode> = out.large_notifies().collect();
        let mut held = Vec::new();
        for (key, waiting) in table.waiting.drain(..) {
            let len = waiting.len_for(out);
            let is_large = len > FRAGMENT;
            if going.contains(&waiting.opcode) || (is_large && !out.has_large_room(len)) {
                held.push((key, waiting));
                continue;
            }
            if is_large {
                going.push(waiting.opcode);
            }
            waiting.append_to(out);
        }
        table.places.clear();
        table.bytes = 0;
        if !held.is_empty() {
            table.hold(held);
        } else if table.waiting.capacity() > KEEP {
            self.table = None;
        }
    }

    /// Appends all that wait, as nothing comes behind them.
    pub(super) fn append_all_to(&mut self, out: &mut Outbound) {
        self.recent.append_all_to(out);
        if let Some(table) = self.table.take() {
            for (_, waiting) in table.waiting {
                waiting.append_to(out);
            }
        }
    }

    /// Drops those that wait.
    pub(super) fn clear(&mut self) {
        self.table = None;
        self.recent.clear();
    }

    /// How many bytes those have that wait.
    pub(super) fn bytes(&self) -> usize {
        self.table.as_ref().map_or(0, |table| table.bytes) + self.recent.bytes()
    }

    /// Whether none waits.
    pub(super) fn is_empty(&self) -> bool {
        self.table.as_ref().is_none_or(|table| table.waiting.is_empty()) && self.recent.is_empty()
    }

    /// How many have been left out, of both kinds.
    pub(super) fn left_out(&self) -> u64 {
        self.left_out + self.recent.left_out()
    }
}

impl Table {
    /// Keeps these, and nothing else.
    fn hold(&mut self, held: Vec<(u64, Waiting)>) {
        self.places =
            held.iter().enumerate().map(|(at, (key, waiting))| ((waiting.opcode, *key), at)).collect();
        self.bytes = held.iter().map(|(_, waiting)| waiting.payload.len()).sum();
        self.waiting = held;
    }
}

/// A table that has grown beyond this for once is not kept.
const KEEP: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        frame::{Head, Metadata},
        packet,
        session::{Cover, Inbound},
    };

    #[packet(opcode = 0x3e01)]
    struct LatestSpot {
        x: u8,
    }

    #[packet(opcode = 0x3e02)]
    struct LatestText {
        text: String,
    }

    const BOUNDS: Bounds = Bounds { packets: 2, bytes: 100 };

    fn spot(x: u8) -> Encoded<LatestSpot> {
        Encoded::new(&LatestSpot { x }).unwrap()
    }

    fn text(len: usize) -> Encoded<LatestText> {
        Encoded::new(&LatestText { text: "x".repeat(len) }).unwrap()
    }

    fn written(latest: &mut Latest) -> Vec<(u16, Vec<u8>)> {
        let mut out = Outbound::new(1_000);
        latest.append_to(&mut out);
        let mut inbound = Inbound::new(1_000);
        inbound.establish(1_000);
        let bytes = out.take(Vec::new());
        inbound.buffer().extend_from_slice(&bytes);
        inbound.received(bytes.len());
        let mut frames = Vec::new();
        while let Some(frame) = inbound.next_frame().unwrap() {
            frames.push((frame.opcode.get(), frame.payload.to_vec()));
        }
        frames
    }

    #[test]
    fn only_the_latest_of_each_key_is_written_and_only_once() {
        let mut latest = Latest::default();
        assert!(latest.put(1, &spot(10), BOUNDS));
        assert!(latest.put(2, &spot(20), BOUNDS));
        assert!(latest.put(1, &spot(11), BOUNDS));
        assert_eq!(latest.left_out, 1, "the one that was replaced");
        assert_eq!(written(&mut latest), [(0x3e01, vec![11]), (0x3e01, vec![20])]);
        assert_eq!(written(&mut latest), []);
        assert!(latest.put(1, &spot(12), BOUNDS), "its key is new again");
        assert_eq!(written(&mut latest), [(0x3e01, vec![12])]);
    }

    #[test]
    fn one_key_of_two_packets_is_two_keys() {
        let mut latest = Latest::default();
        let text = Encoded::new(&LatestText { text: "a".into() }).unwrap();
        assert!(latest.put(1, &spot(10), BOUNDS));
        assert!(latest.put(1, &text, BOUNDS));
        assert_eq!(written(&mut latest), [(0x3e01, vec![10]), (0x3e02, vec![1, b'a'])]);
    }

    #[test]
    fn neither_keys_nor_bytes_pass_their_bounds() {
        let mut latest = Latest::default();
        assert!(latest.put(1, &text(50), BOUNDS));
        assert!(!latest.put(2, &text(50), BOUNDS), "102 bytes");
        assert!(latest.put(2, &text(48), BOUNDS));
        assert!(!latest.put(3, &text(0), BOUNDS), "three keys");
        assert!(!latest.put(2, &text(49), BOUNDS));
        assert!(latest.put(2, &text(10), BOUNDS), "a known key, and shorter");
        assert_eq!(latest.left_out, 4, "three had no room, one was replaced");
        assert_eq!(written(&mut latest).len(), 2);
        assert!(!latest.put(1, &spot(1), Bounds { packets: 0, bytes: 100 }));
    }

    #[test]
    fn one_that_is_alone_may_pass_the_bound_on_bytes() {
        let mut latest = Latest::default();
        assert!(latest.put(1, &text(500), BOUNDS));
        assert!(latest.put(1, &text(600), BOUNDS), "still alone");
        assert!(!latest.put(2, &text(0), BOUNDS));
        assert_eq!(written(&mut latest).len(), 1);
    }

    #[test]
    fn what_waits_for_fragments_can_be_replaced_and_holds_up_no_other_opcode() {
        let bounds = Bounds { packets: 9, bytes: usize::MAX };
        let mut latest = Latest::default();
        let mut out = Outbound::new(usize::MAX);
        let mut lens = vec![10 * FRAGMENT];
        assert!(latest.put(1, &text(lens[0]), bounds));
        latest.append_to(&mut out);
        assert!(latest.is_empty());
        for (key, len) in [(1, 3 * FRAGMENT), (2, 7), (1, 5)] {
            assert!(latest.put(key, &text(len), bounds));
            latest.append_to(&mut out);
        }
        assert!(latest.put(1, &spot(1), bounds));
        lens.extend([5, 7]);

        let mut inbound = Inbound::new(usize::MAX);
        inbound.establish(usize::MAX);
        let (mut texts, mut spots) = (Vec::new(), 0);
        while !latest.is_empty() || !out.is_empty() {
            latest.append_to(&mut out);
            let bytes = out.take(Vec::new());
            inbound.buffer().extend_from_slice(&bytes);
            while let Some(frame) = inbound.next_frame().unwrap() {
                match frame.opcode.get() {
                    0x3e01 => spots += texts.is_empty() as usize,
                    _ => texts.push(crate::wire::from_slice::<String>(&frame.payload).unwrap().len()),
                }
            }
        }
        assert_eq!((texts, spots), (lens, 1));
    }

    #[test]
    fn without_room_for_fragments_it_waits_and_goes_with_the_goodbye() {
        let bounds = Bounds { packets: 9, bytes: usize::MAX };
        let mut latest = Latest::default();
        let mut out = Outbound::new(usize::MAX);
        out.set_large_room(4 * FRAGMENT);
        let head = Head::notify(Opcode::new(0x3e09));
        let body = [0; 3 * FRAGMENT];
        out.append(Cover::Plain, head, Metadata::default(), body.len(), |w| w.put(&body)).unwrap();
        assert!(latest.put(1, &text(2 * FRAGMENT), bounds));
        latest.append_to(&mut out);
        assert!(!latest.is_empty());
        assert_eq!(out.large_len(), body.len());
        latest.append_all_to(&mut out);
        assert!(latest.is_empty());
        assert!(out.large_len() > 5 * FRAGMENT);
    }
}
