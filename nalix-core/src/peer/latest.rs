//! One-way packets of which only the latest counts, until they are written.

use std::collections::HashMap;

use bytes::Bytes;

use crate::{
    Opcode,
    frame::{Head, Metadata},
    packet::{Encoded, Packet},
    session::{Cover, Outbound},
};

/// The packets that wait, each in the place of its key. They take no room in the outbox and have bounds of their own.
#[derive(Debug, Default)]
pub(super) struct Latest(Option<Box<Table>>);

/// How much may wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) packets: usize,
    pub(super) bytes: usize,
}

#[derive(Debug, Default)]
struct Table {
    /// In the order in which their keys first came.
    waiting: Vec<Waiting>,
    places: HashMap<(Opcode, u64), usize>,
    bytes: usize,
}

#[derive(Debug)]
struct Waiting {
    opcode: Opcode,
    cover: Cover,
    payload: Bytes,
}

impl Latest {
    /// Puts a packet in the place of its key. Returns whether there was one for it.
    pub(super) fn put<P: Packet>(&mut self, key: u64, packet: &Encoded<P>, bounds: Bounds) -> bool {
        let table = self.0.get_or_insert_default();
        let payload = packet.payload();
        let place = table.places.get(&(P::OPCODE, key)).copied();
        let replaced = place.map_or(0, |at| table.waiting[at].payload.len());
        let bytes = table.bytes - replaced + payload.len();
        // One that is shorter than the one before always has its place.
        let fits = bytes <= bounds.bytes || payload.len() <= replaced;
        if !fits || (place.is_none() && table.waiting.len() >= bounds.packets) {
            return false;
        }
        table.bytes = bytes;
        let payload = payload.clone();
        match place {
            Some(at) => table.waiting[at].payload = payload,
            None => {
                table.places.insert((P::OPCODE, key), table.waiting.len());
                table.waiting.push(Waiting { opcode: P::OPCODE, cover: Cover::of(P::ENCRYPT), payload });
            }
        }
        true
    }

    /// Appends all that wait; nothing can replace them then.
    pub(super) fn append_to(&mut self, out: &mut Outbound) {
        let Some(table) = &mut self.0 else { return };
        for Waiting { opcode, cover, payload } in table.waiting.drain(..) {
            let head = Head::notify(opcode);
            let appended = out.append(cover, head, Metadata::default(), payload.len(), |w| w.put(&payload));
            if let Err(error) = appended {
                // Their length has been checked.
                tracing::error!(%error, "a packet cannot be sent");
            }
        }
        table.places.clear();
        table.bytes = 0;
        if table.waiting.capacity() > KEEP {
            self.0 = None;
        }
    }
}

/// A table that has grown beyond this for once is not kept.
const KEEP: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{packet, session::Inbound};

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
        let text = |len| Encoded::new(&LatestText { text: "x".repeat(len) }).unwrap();
        assert!(latest.put(1, &text(50), BOUNDS));
        assert!(!latest.put(2, &text(50), BOUNDS), "102 bytes");
        assert!(latest.put(2, &text(48), BOUNDS));
        assert!(!latest.put(3, &text(0), BOUNDS), "three keys");
        assert!(!latest.put(2, &text(49), BOUNDS));
        assert!(latest.put(2, &text(10), BOUNDS), "a known key, and shorter");
        assert_eq!(written(&mut latest).len(), 2);
        assert!(!latest.put(1, &spot(1), Bounds { packets: 0, bytes: 100 }));
    }
}
