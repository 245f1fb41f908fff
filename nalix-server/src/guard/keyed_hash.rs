//! A hash of addresses that nobody can steer, in a few nanoseconds.

use std::hash::{BuildHasher, Hash, Hasher, RandomState};

use nalix_core::limit::AddressKey;

/// Two folded multiplications with secret numbers. Whoever does not know them cannot choose addresses that fall together; and
/// they do not leave the process, nor do hashes.
#[derive(Debug)]
pub(super) struct KeyedHash([u64; 4]);

impl KeyedHash {
    /// With numbers of its own.
    pub(super) fn random() -> Self {
        let source = RandomState::new();
        Self([0, 1, 2, 3].map(|n| source.hash_one(n) | 1))
    }

    #[inline]
    pub(super) fn of(&self, address: AddressKey) -> u64 {
        let mut word = Through::default();
        address.hash(&mut word);
        let [a, b, c, d] = self.0;
        fold(fold(word.0 ^ a, b) ^ c, d)
    }
}

/// Hands on the number that it is given: what is hashed is one already, or is hashed.
#[derive(Debug, Default)]
pub(super) struct Through(u64);

impl Hasher for Through {
    #[inline]
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    /// Not for the keys in here, which write one number.
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    use super::*;

    /// Each bit range that something goes by: shards, places in a table, and places of those who were told.
    #[test]
    fn neighbouring_addresses_are_spread_evenly() {
        let hash = KeyedHash::random();
        let v4 = |n: u32| IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + n));
        let v6 = |n: u32| IpAddr::V6(Ipv6Addr::from_bits((0x2001_0db8 << 96) + (u128::from(n) << 64)));
        for address in [&v4 as &dyn Fn(u32) -> IpAddr, &v6] {
            for shift in [0, 6, 32, 57] {
                let mut counts = [0; 64];
                for n in 0..64_000 {
                    counts[(hash.of(AddressKey::of(address(n))) >> shift) as usize % 64] += 1;
                }
                // 1,000 each, with a standard deviation of 32.
                assert!(counts.iter().all(|count| (800..1_200).contains(count)), "{shift}: {counts:?}");
            }
        }
    }

    #[test]
    fn others_cannot_tell_a_hash() {
        let address = AddressKey::of(IpAddr::V4(Ipv4Addr::LOCALHOST));
        assert_ne!(KeyedHash::random().of(address), KeyedHash::random().of(address));
    }
}
