//! Comparing what two peers know of packets.

use std::{collections::HashMap, fmt};

use crate::{
    Opcode,
    registry::{PacketInfo, Registry},
    schema::{Contract, Difference, Fingerprint, compare},
};

/// The packets that one side knows, by opcode.
#[derive(Debug, Clone, Default)]
pub struct Contracts {
    packets: Vec<&'static PacketInfo>,
}

impl Contracts {
    /// The packets of a registry.
    pub fn of(registry: &Registry) -> Self {
        Self { packets: registry.iter().collect() }
    }

    /// The given packets.
    pub fn from_packets(packets: impl IntoIterator<Item = &'static PacketInfo>) -> Self {
        let mut packets: Vec<_> = packets.into_iter().collect();
        packets.sort_by_key(|packet| packet.opcode);
        Self { packets }
    }

    /// What a Hello says of them.
    pub(super) fn fingerprints(&self) -> Vec<(u16, u64)> {
        self.packets.iter().map(|p| (p.opcode.get(), p.fingerprint().get())).collect()
    }

    /// Our contracts of those packets that both sides know and whose fingerprints differ.
    pub(super) fn differing(&self, theirs: &[(u16, u64)]) -> Vec<(u16, Contract)> {
        let theirs: HashMap<u16, Fingerprint> =
            theirs.iter().map(|&(opcode, fingerprint)| (opcode, Fingerprint::new(fingerprint))).collect();
        self.packets
            .iter()
            .filter(|p| theirs.get(&p.opcode.get()).is_some_and(|&other| other != p.fingerprint()))
            .map(|p| (p.opcode.get(), p.contract().clone()))
            .collect()
    }

    /// Looks for a difference that the rules of growth do not allow.
    pub(super) fn check(&self, theirs: &[(u16, Contract)]) -> Result<(), Mismatch> {
        for (opcode, contract) in theirs {
            let opcode = Opcode::new(*opcode);
            let Some(ours) = self.packets.iter().find(|p| p.opcode == opcode) else { continue };
            if let Err(difference) = compare(ours.contract(), contract) {
                return Err(Mismatch { opcode, packet: ours.name, difference });
            }
        }
        Ok(())
    }
}

/// A packet that both sides know, each in its own way.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mismatch {
    /// Its opcode.
    pub opcode: Opcode,
    /// Its name on this side.
    pub packet: &'static str,
    /// What differs.
    pub difference: Difference,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "packet {} ({}): {}", self.packet, self.opcode, self.difference)
    }
}

impl std::error::Error for Mismatch {}
