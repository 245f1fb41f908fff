//! Records are sealed and opened without allocating, where the buffer has room.
//!
//! One test in a program of its own, since the allocator counts for all threads.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use nalix_core::record::{Best, Cipher, HEADER, Key, Opener, Portable, RECORDS_PER_KEY, Sealer, TAG};
use peak_alloc::PeakAlloc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

#[test]
fn sealing_and_opening_allocate_nothing() {
    // The test's own runner may allocate meanwhile, but not each time.
    assert!((0..5).any(|_| allocated::<Best>() == 0));
    assert!((0..5).any(|_| allocated::<Portable>() == 0));
}

/// By how much the memory in use rises above what it is before the first record.
fn allocated<C: Cipher>() -> usize {
    // The change of keys is within.
    let start = RECORDS_PER_KEY - 50;
    let mut sealer = Sealer::<C>::at(Key::new([7; 32]), start);
    let mut opener = Opener::<C>::at(Key::new([7; 32]), start);
    let mut buf = Vec::with_capacity(HEADER + 16 * 1024 + TAG);
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    for round in 0..100 {
        let len = [0, 1, 32, 1024, 16 * 1024][round % 5];
        buf.clear();
        buf.resize(HEADER + len, 0xd5);
        sealer.seal(&mut buf, 0).unwrap();
        let (head, body) = buf.split_first_chunk_mut().unwrap();
        assert_eq!(opener.open(*head, body), Ok(len));
    }
    MEMORY.peak_usage().saturating_sub(before)
}
