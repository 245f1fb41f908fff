//! A number that is equal where contracts are.

use std::fmt;

use super::{Contract, Describe, SchemaBuilder, Type};
use crate::{
    error::DecodeError,
    wire::{Decode, Encode, Reader, Writer},
};

/// A hash of a contract: peers that hold the same one for an opcode agree on every byte of its packets.
///
/// It covers the names, order, types and `since` of fields, the names and order of variants, and what is `extensible` or
/// `exact`. It does not cover type names and `max_len`, nor anything of the build: not the order of definitions, not
/// the order of linking, not features, not the platform.
///
/// It is FNV-1a with 128 bits over the encoded contract in its canonical form, the upper half of the result xored onto
/// the lower. It finds mistakes, and is no proof against someone who looks for two contracts with one fingerprint.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(u64);

impl Fingerprint {
    /// Wraps a number, as a peer has sent it.
    pub const fn new(value: u64) -> Self {
        Self(value)
    }

    /// The fingerprint of a contract.
    pub fn of(contract: &Contract) -> Self {
        let mut bytes = Vec::new();
        contract.canonical().encode(&mut Writer::new(&mut bytes, usize::MAX));
        let hash = fnv1a(&bytes);
        Self((hash >> 64) as u64 ^ hash as u64)
    }

    /// The number itself.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Encode for Fingerprint {
    const FIXED_SIZE: Option<usize> = Some(8);

    fn encode(&self, w: &mut Writer<'_>) {
        self.0.encode(w);
    }
}

impl<'de> Decode<'de> for Fingerprint {
    const MIN_SIZE: usize = 8;

    fn decode(r: &mut Reader<'de>) -> Result<Self, DecodeError> {
        u64::decode(r).map(Self)
    }
}

impl Describe for Fingerprint {
    fn describe(schema: &mut SchemaBuilder) -> Type {
        u64::describe(schema)
    }
}

/// FNV-1a, 128 bits (RFC 9923).
fn fnv1a(bytes: &[u8]) -> u128 {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = (1 << 88) + 0x13b;
    bytes.iter().fold(OFFSET, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::fnv1a;

    #[test]
    fn published_vectors() {
        assert_eq!(fnv1a(b""), 0x6c62272e07bb014262b821756295c58d);
        assert_eq!(fnv1a(b"a"), 0xd228cb696f1a8caf78912b704e4a8964);
        assert_eq!(fnv1a(b"foobar"), 0x343e1662793c64bf6f0d3597ba446f18);
    }
}
