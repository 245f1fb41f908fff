//! A counting global allocator: the system's, plus how often and how much.

#![allow(unsafe_code, reason = "`GlobalAlloc` is an unsafe trait; every method only forwards to `System`")]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Heap allocations of this process since it started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Allocated {
    /// Calls that handed out memory; growing a block counts as one.
    pub(crate) count: u64,
    /// Bytes asked for; growing a block counts what was added.
    pub(crate) bytes: u64,
}

impl Allocated {
    /// The sum over all threads. Exact once the threads that allocate are at rest.
    pub(crate) fn now() -> Self {
        SHARDS.iter().fold(Self::default(), |sum, shard| Self {
            count: sum.count + shard.count.load(Relaxed),
            bytes: sum.bytes + shard.bytes.load(Relaxed),
        })
    }
}

struct Counting;

// SAFETY: memory comes from and goes back to `System` with the caller's own arguments; counting touches no memory of
// the caller and allocates nothing itself.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promises are passed on unchanged.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(new_size.saturating_sub(layout.size()));
        // SAFETY: as above.
        unsafe { System.realloc(block, layout, new_size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }
}

/// Threads count in different cache lines, or a peer that allocates much would be slowed down by being counted.
#[repr(align(128))]
struct Shard {
    count: AtomicU64,
    bytes: AtomicU64,
}

fn count(bytes: usize) {
    // A thread that is being torn down may have lost its locals; it counts in shard 0.
    let index = SHARD.try_with(Cell::get).unwrap_or(0);
    let shard = match SHARDS.get(index) {
        Some(shard) => shard,
        None => &SHARDS[choose_shard()],
    };
    shard.count.fetch_add(1, Relaxed);
    shard.bytes.fetch_add(bytes as u64, Relaxed);
}

#[cold]
fn choose_shard() -> usize {
    let index = NEXT_SHARD.fetch_add(1, Relaxed) % SHARD_COUNT;
    let _ = SHARD.try_with(|shard| shard.set(index));
    index
}

const SHARD_COUNT: usize = 32;

static SHARDS: [Shard; SHARD_COUNT] =
    [const { Shard { count: AtomicU64::new(0), bytes: AtomicU64::new(0) } }; SHARD_COUNT];
static NEXT_SHARD: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Which shard this thread counts in; out of range until its first allocation. Has no destructor, so that reading
    /// it never allocates.
    static SHARD: Cell<usize> = const { Cell::new(usize::MAX) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_at_least_what_was_allocated() {
        let before = Allocated::now();
        let blocks: Vec<Box<[u8]>> = (0..10).map(|_| vec![0_u8; 1000].into_boxed_slice()).collect();
        let after = Allocated::now();
        assert_eq!(blocks.len(), 10);
        // Other tests run beside this one, so only a lower bound holds.
        assert!(after.count - before.count >= 11, "{before:?} {after:?}");
        assert!(after.bytes - before.bytes >= 10_000, "{before:?} {after:?}");
    }
}
