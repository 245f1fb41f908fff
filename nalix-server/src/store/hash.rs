//! Hashing of names that are random already.

use std::hash::{BuildHasher, Hasher, RandomState};

/// Hashes names of 16 random bytes: a multiplication for each half, keyed at random.
///
/// The names in a table are ones that a server has drawn, so nobody can choose them to be alike; the key is
/// there in case that somebody fills a store with names of another origin. The standard library's hasher
/// takes several times as long.
#[derive(Debug, Clone)]
pub(super) struct NameHash {
    seed: u64,
    factor: u64,
}

impl NameHash {
    pub(super) fn new() -> Self {
        let random = RandomState::new();
        Self { seed: random.hash_one(0), factor: random.hash_one(1) | 1 }
    }
}

impl BuildHasher for NameHash {
    type Hasher = NameHasher;

    fn build_hasher(&self) -> NameHasher {
        NameHasher { state: self.seed, factor: self.factor }
    }
}

#[derive(Debug)]
pub(super) struct NameHasher {
    state: u64,
    factor: u64,
}

impl Hasher for NameHasher {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            let product = u128::from(self.state ^ u64::from_le_bytes(word)) * u128::from(self.factor);
            self.state = product as u64 ^ (product >> 64) as u64;
        }
    }

    fn finish(&self) -> u64 {
        self.state
    }
}
