//! What packets with streams add to contracts and handshakes, against the bytes in `golden/frames.txt`.
//!
//! In a program of its own, since the packets of a program are in its hello.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use bytes::Bytes;
use nalix_core::{
    handshake::{Answer, Contracts, Hello, Offer, Params, Responder, ServerSecurity},
    packet,
    record::{self, RecordKind},
    registry::Registry,
    wire::to_vec,
};

#[packet(opcode = 0x4001, stream = u64)]
struct Ticks {
    symbol: String,
}

#[packet(opcode = 0x4002, upload = Vec<u8>, reply = u32)]
struct Put;

#[packet(opcode = 0x4003, upload = String, stream = String)]
struct Chat;

#[test]
fn contracts_of_streams_have_their_golden_bytes() {
    let mut golden = golden();
    let registry = Registry::global().unwrap();
    for name in ["Ticks", "Put", "Chat"] {
        let packet = registry.by_name(name).unwrap();
        let contract = golden.remove(&("stream packet", name)).unwrap();
        assert_eq!(to_vec(packet.contract()).unwrap(), contract, "{name}");
        let fingerprint = golden.remove(&("stream print", name)).unwrap();
        assert_eq!(to_vec(&packet.fingerprint()).unwrap(), fingerprint, "{name}");
    }
}

#[test]
fn hellos_with_a_window_have_their_golden_bytes() {
    let mut golden = golden();
    let mut take = |name| golden.remove(&(name, "windows of 8,192 bytes")).unwrap();
    let params = Params::new(1 << 20, 1024, Contracts::of(Registry::global().unwrap())).with_streams(8_192);

    let bytes = take("stream hello");
    assert_eq!(record::build(RecordKind::Hello, &Hello::plaintext(&params).body()), bytes);
    let hello = Hello::parse(&Bytes::from(bytes).slice(record::HEADER..)).unwrap();
    assert_eq!(Offer::parse(&hello.content).unwrap().stream_window, 8_192);

    let responder = Responder::read(&hello, params, &ServerSecurity::Plaintext, None).unwrap();
    let accepted = responder.accept(None, None).unwrap();
    let bytes = take("stream reply");
    assert_eq!(accepted.reply, bytes);
    assert_eq!((accepted.terms.window_in, accepted.terms.window_out), (8_192, 8_192));
    let answer = Answer::parse(&Bytes::from(bytes).slice(record::HEADER..)).unwrap();
    assert_eq!(answer.stream_window, 8_192);
}

#[test]
fn every_golden_line_of_streams_is_checked_here() {
    assert_eq!(golden().len(), 8);
}

/// The lines of this file, by name and meaning.
fn golden() -> BTreeMap<(&'static str, &'static str), Vec<u8>> {
    let lines = include_str!("golden/frames.txt").lines().filter(|line| line.starts_with("stream "));
    let lines = lines.map(|line| {
        let [name, words, hex] = line.split('|').map(str::trim).collect::<Vec<_>>()[..] else {
            panic!("not `name | meaning | hex`: {line}");
        };
        ((name, words), hex.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect())
    });
    lines.collect()
}
