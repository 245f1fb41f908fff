//! What compressed messages cost: as much memory as the message that is really there, however much it claims to be.
//!
//! One test in a program of its own, since the allocator counts for all threads.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use nalix_core::{
    CallId,
    frame::{FrameKind, Head, Metadata, compress},
    session::{Cover, Inbound, Outbound},
};
use peak_alloc::PeakAlloc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

const LIMIT: usize = 16 << 20;

#[test]
fn memory_is_taken_for_what_is_there() {
    bombs_and_lies_cost_nothing();
    a_message_is_inflated_once();
    a_thread_that_has_compressed_takes_no_more();
}

/// A block of `len` bytes or more, by a match that goes on and on.
fn bomb(says: u32, len: usize) -> Vec<u8> {
    let mut buf = [0; 10];
    let n = nalix_core::wire::varint::put(says.into(), &mut buf);
    let mut body = buf[..n].to_vec();
    body.extend([0x1f, 0x2a, 1, 0]);
    body.extend(vec![255; len / 255]);
    body.extend([0, 0x50, 1, 2, 3, 4, 5]);
    body
}

fn frames(head: Head, body: &[u8]) -> Vec<u8> {
    let mut out = Outbound::new(usize::MAX);
    out.append_compressed(None, Cover::Plain, head, (Metadata::default(), None), body).unwrap();
    let mut bytes = Vec::new();
    while !out.is_empty() {
        bytes.extend(out.take(Vec::new()));
    }
    bytes
}

/// What the receiver has taken at its highest, and whether it has refused what came.
fn peak(head: Head, body: &[u8]) -> (usize, bool) {
    let bytes = frames(head, body);
    let mut inbound = Inbound::new(0);
    inbound.establish(LIMIT);
    inbound.set_inflation(true);
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    let mut refused = false;
    for chunk in bytes.chunks(4_096) {
        inbound.buffer().extend_from_slice(chunk);
        while let Some(frame) = inbound.next_frame().unwrap_or_else(|_| {
            refused = true;
            None
        }) {
            assert!(frame.payload.len() <= LIMIT);
        }
    }
    (MEMORY.peak_usage() - before, refused)
}

fn bombs_and_lies_cost_nothing() {
    let reply = Head::of_call(FrameKind::Reply, CallId::new(0));
    let most = 2 << 20;
    // 64 MiB and 1 GiB of one byte, which say that they are as long as may be, longer, or just longer than they are here.
    for holds in [64 << 20, 1 << 30] {
        let travels = holds / 255;
        for says in [LIMIT as u32, LIMIT as u32 + 1, u32::MAX, travels as u32 + 100] {
            let (taken, refused) = peak(reply, &bomb(says, holds));
            assert!(refused, "{holds} bytes that say {says}");
            // No more than what has come of it, which is kept in a list that grows.
            assert!(taken < 3 * travels + 128 * 1024, "{taken} bytes for {holds} that say {says}");
            assert!(holds > 64 << 20 || taken < most, "{taken} bytes");
        }
    }
    // The other way round: little that says it is much.
    let (taken, refused) = peak(reply, &bomb(LIMIT as u32, 1_000));
    assert!(refused && taken < 64 * 1024, "{taken} bytes");
}

fn a_message_is_inflated_once() {
    let reply = Head::of_call(FrameKind::Reply, CallId::new(0));
    let body = compress::compressed(&vec![7; LIMIT], |bytes| bytes.unwrap().to_vec());
    let (taken, refused) = peak(reply, &body);
    assert!(!refused);
    assert!(taken < LIMIT + 3 * body.len() + 128 * 1024, "{taken} bytes");
}

fn a_thread_that_has_compressed_takes_no_more() {
    let message = vec![7; 40_000];
    compress::compressed(&message, |bytes| assert!(bytes.is_some()));
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    for len in (0..40_000).step_by(97) {
        compress::compressed(&message[..len], |bytes| assert_eq!(bytes.is_some(), len > 30));
        let written = |w: &mut nalix_core::wire::Writer<'_>| w.put(&message[..len.min(1_000)]);
        compress::written(1_000, 100, written, |_, _| ()).unwrap();
    }
    let taken = MEMORY.peak_usage() - before;
    assert!(taken < 4_096, "{taken} bytes: once for where messages are encoded");
    // One that is large for once leaves nothing behind.
    compress::compressed(&vec![7; 8 << 20], |bytes| assert!(bytes.is_some()));
    let left = MEMORY.current_usage().saturating_sub(before);
    assert!(left < 4_096, "{left} bytes are left");
}
