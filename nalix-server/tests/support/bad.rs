//! Bodies of records that no peer may send.

use nalix_core::{
    CallId,
    frame::{FrameKind, Head},
};

use super::{frame, request};

/// What is wrong with each, and the bytes of a record's body.
pub(crate) fn bad_bodies() -> Vec<(&'static str, Vec<u8>)> {
    let ping = Head::plain(FrameKind::Ping);
    vec![
        ("kind 0", vec![0, 0, 0]),
        ("zeros", vec![0; 100]),
        ("more of a ping", vec![0x10 | 9, 0]),
        ("more of nothing", vec![0x10 | 2, 0, 1, 0x10, 0]),
        ("a fragment of no message", vec![13, 0, 1, 7]),
        ("two messages in a slot", [0x10 | 2, 0, 1, 0x10, 3, 1, 9, 7].repeat(2)),
        ("another reserved flag", vec![0x80 | 9, 0]),
        ("compression nobody has agreed on", vec![0x20 | 9, 0]),
        ("metadata on a ping", vec![0x40 | 9, 1, 0]),
        ("a tag alone", vec![9]),
        ("a request without its opcode", vec![2, 0, 0x01]),
        ("an id that does not end", vec![2, 0x80, 0x80, 0x80, 0x80]),
        ("an id over 32 bits", vec![2, 0xff, 0xff, 0xff, 0xff, 0x1f, 1, 0x10, 0]),
        ("an id in too many bytes", vec![2, 0x80, 0x00, 1, 0x10, 0]),
        ("a payload longer than its record", vec![9, 5, 1, 2]),
        ("a length over 32 bits", vec![9, 0xff, 0xff, 0xff, 0xff, 0x7f]),
        ("a ping of 33 bytes", frame(ping, &[1; 33])),
        ("a cancel with a payload", frame(Head::of_call(FrameKind::Cancel, CallId::new(0)), b"x")),
        ("an empty control message", frame(Head::plain(FrameKind::Control), b"")),
        ("a goodbye whose text is no text", frame(Head::plain(FrameKind::Control), b"\0\0\0\x02\xff\xff")),
        ("a goodbye without its text", frame(Head::plain(FrameKind::Control), b"\0\0\0\x05ab")),
        ("metadata longer than its frame", vec![0x42, 0, 1, 0x10, 1, 9]),
        ("metadata with a bad time", vec![0x42, 0, 1, 0x10, 5, 4, 1, 2, 0x80, 0x00]),
        ("metadata with an empty name", vec![0x42, 0, 1, 0x10, 8, 3, 2, 1, 0, 4, 0, 0, 0]),
        ("metadata with a name that is no text", vec![0x42, 0, 1, 0x10, 9, 4, 2, 2, 1, 0xff, 4, 0, 0, 0]),
        ("a request without any metadata to its flag", vec![0x42, 0, 1, 0x10, 0]),
        ("an id above the limit", request(1_024, 0x1001, &[4, 0, 0, 0])),
        ("the highest id", request(u32::MAX, 0x1001, &[4, 0, 0, 0])),
    ]
}
