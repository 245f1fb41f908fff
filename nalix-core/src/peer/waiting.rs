//! One-way packets that wait outside of the outbox, where they can still be left out.

use bytes::Bytes;

use crate::{
    Opcode,
    frame::{FRAGMENT, Head, Metadata},
    packet::{Encoded, Packet, Priority},
    session::{Cover, Outbound},
};

/// How much may wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) packets: usize,
    pub(super) bytes: usize,
}

/// One of them.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) opcode: Opcode,
    priority: Option<Priority>,
    cover: Cover,
    pub(super) payload: Bytes,
    /// For a peer that can inflate it.
    compressed: Option<Bytes>,
}

impl Waiting {
    pub(super) fn of<P: Packet>(packet: &Encoded<P>) -> Self {
        let (opcode, priority, cover) = (P::OPCODE, P::PRIORITY, Cover::of(P::ENCRYPT));
        let (payload, compressed) = (packet.payload().clone(), packet.compressed().cloned());
        Self { opcode, priority, cover, payload, compressed }
    }

    /// How many bytes of it travel.
    pub(super) fn len_for(&self, out: &Outbound) -> usize {
        self.compressed.as_ref().filter(|_| out.compresses()).unwrap_or(&self.payload).len()
    }

    pub(super) fn append_to(self, out: &mut Outbound) {
        let Self { opcode, priority, cover, payload, compressed } = self;
        let (head, metadata) = (Head::notify(opcode), (Metadata::default(), None));
        // They have been waiting already, where they could be left out, and within bounds.
        let (head, payload) = match compressed.filter(|_| out.compresses()) {
            Some(bytes) => (head.with_compressed(), bytes),
            None => (head, payload),
        };
        let large = payload.len() > FRAGMENT;
        let priority = if large { priority } else { None };
        let appended = out.without_ranks(|out| {
            if large {
                out.append_encoded(priority, cover, head, metadata, payload)
            } else {
                out.append_as(priority, cover, head, metadata, payload.len(), |w| w.put(&payload))
            }
        });
        if let Err(error) = appended {
            // Their length has been checked.
            tracing::error!(%error, "a packet cannot be sent");
        }
    }
}
