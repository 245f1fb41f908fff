//! What large messages cost: as much as has come of them, never as much as is announced.
//!
//! One test in a program of its own, since the allocator counts for all threads.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use nalix_core::{
    CallId, Opcode,
    frame::{FRAGMENT, Head, Metadata, SLOTS},
    session::{Cover, Inbound, Outbound},
};
use peak_alloc::PeakAlloc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

const LEN: usize = 16 << 20;

#[test]
fn memory_grows_with_what_has_come() {
    announced_lengths_cost_nothing();
    a_message_is_encoded_once_and_kept_once();
}

fn announced_lengths_cost_nothing() {
    let mut inbound = Inbound::new(0);
    inbound.establish(LEN);
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    for slot in 0..SLOTS as u8 {
        // 16 MiB in this slot, of which one byte comes.
        let frame = [0x10 | 2, slot, 1, 0x10, 6, slot, 0x80, 0x80, 0x80, 0x08, 7];
        inbound.buffer().extend_from_slice(&[&[3, frame.len() as u8, 0, 0], &frame[..]].concat());
        assert_eq!(inbound.next_frame(), Ok(None));
    }
    assert!(inbound.end().is_err(), "all four have begun");
    let taken = MEMORY.peak_usage() - before;
    assert!(taken < 16 * 1024, "{taken} bytes");
    for n in 1..100 {
        let body = [&[0x10 | 13, 0, 0x90, 0x4e][..], &[7; 10_000]].concat();
        inbound.buffer().extend_from_slice(&[3, body.len() as u8, (body.len() >> 8) as u8, 0]);
        inbound.buffer().extend_from_slice(&body);
        assert_eq!(inbound.next_frame(), Ok(None));
        let taken = MEMORY.peak_usage() - before;
        // A list that grows has both its old and its new memory for a moment.
        assert!(taken < 64 * 1024 + 3 * n * 10_000, "{taken} bytes after {n} fragments");
    }
}

fn a_message_is_encoded_once_and_kept_once() {
    let body = vec![7; LEN];
    let (mut out, mut inbound) = (Outbound::new(LEN), Inbound::new(0));
    inbound.establish(LEN);
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    let head = Head::request(CallId::new(0), Opcode::new(0x1001));
    out.append(Cover::Plain, head, Metadata::default(), LEN, |w| w.put(&body)).unwrap();
    let mut spare = Vec::new();
    let sent = MEMORY.peak_usage() - before;
    assert!(sent < LEN + 4 * FRAGMENT, "{sent} bytes to be sent");
    let mut received = None;
    while !out.is_empty() {
        spare = out.take(spare);
        inbound.buffer().extend_from_slice(&spare);
        received = inbound.next_frame().unwrap();
    }
    assert!(received.unwrap().payload == body);
    let both = MEMORY.peak_usage() - before;
    assert!(both < 3 * LEN, "{both} bytes for both sides");
}
