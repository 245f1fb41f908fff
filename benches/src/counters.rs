//! What a server counts by itself while it pushes: peers add, [`Usage`](crate::measure::Usage) reads.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How often a pushed message was encoded.
pub(crate) static ENCODES: AtomicU64 = AtomicU64::new(0);

/// How often bytes were handed to a socket.
pub(crate) static WRITES: AtomicU64 = AtomicU64::new(0);

/// For how many members a message was left out.
pub(crate) static SKIPPED: AtomicU64 = AtomicU64::new(0);

/// Counts one more.
pub(crate) fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Relaxed);
}

/// The three at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) encodes: u64,
    pub(crate) writes: u64,
    pub(crate) skipped: u64,
}

impl Counted {
    pub(crate) fn now() -> Self {
        Self { encodes: ENCODES.load(Relaxed), writes: WRITES.load(Relaxed), skipped: SKIPPED.load(Relaxed) }
    }

    pub(crate) fn since(&self, earlier: &Self) -> Self {
        Self {
            encodes: self.encodes - earlier.encodes,
            writes: self.writes - earlier.writes,
            skipped: self.skipped - earlier.skipped,
        }
    }
}
