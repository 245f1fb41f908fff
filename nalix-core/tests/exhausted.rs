//! A connection whose key has sealed all that it may.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use nalix_core::{
    CallId, Sealing,
    frame::{FrameKind, Head, Metadata},
    record::{Key, MAX_RECORDS, Sealer},
    session::{Cover, Outbound},
};

#[test]
fn a_frame_that_is_lost_for_want_of_a_key_does_not_count_as_written() {
    let sealer = Sealer::at(Key::new([1; Key::LEN]), MAX_RECORDS - 1);
    let mut out = Outbound::secured(100, sealer, Sealing::All);
    let append = |out: &mut Outbound| {
        let head = Head::of_call(FrameKind::Reply, CallId::new(1));
        out.append(Cover::Sealed, head, Metadata::default(), 0, |_| {}).unwrap();
    };
    append(&mut out);
    assert!(out.write_with(<[u8]>::len), "the last record");
    append(&mut out);
    assert!(!out.write_with(<[u8]>::len));
    assert!(out.is_exhausted());
}
