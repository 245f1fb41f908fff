//! Frames and records made by hand.

use bytes::Bytes;
use nalix_core::{
    CallId, Failure, Opcode, Packet, Status,
    frame::{self, FrameKind, Head, Metadata},
    record::{self, RecordKind},
    session::{Cover, Outbound},
    wire::{Encode, to_vec, varint},
};

/// A frame with any payload.
pub(crate) fn frame(head: Head, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    frame::put_head(&mut out, head);
    put_varint(&mut out, payload.len());
    out.extend_from_slice(payload);
    out
}

/// A request with any payload.
pub(crate) fn request(id: u32, opcode: u16, payload: &[u8]) -> Vec<u8> {
    frame(Head::request(CallId::new(id), Opcode::new(opcode)), payload)
}

/// A one-way packet.
pub(crate) fn notify<P: Packet>(packet: &P) -> Vec<u8> {
    frame(Head::notify(P::OPCODE), &to_vec(packet).expect("encodes"))
}

/// A request with metadata.
pub(crate) fn packet_with<P: Packet>(id: u32, packet: &P, metadata: Metadata) -> Vec<u8> {
    let mut payload = Vec::new();
    let mut head = Head::request(CallId::new(id), P::OPCODE);
    if !metadata.is_empty() {
        head = head.with_metadata();
        metadata.encode(&mut payload);
    }
    payload.extend(to_vec(packet).expect("encodes"));
    frame(head, &payload)
}

pub(crate) fn cancel(id: u32) -> Vec<u8> {
    frame(Head::of_call(FrameKind::Cancel, CallId::new(id)), b"")
}

/// The records of a request with any payload, in fragments if need be.
pub(crate) fn large_request(id: u32, opcode: u16, payload: &[u8]) -> Vec<u8> {
    let mut out = Outbound::new(payload.len());
    let head = Head::request(CallId::new(id), Opcode::new(opcode));
    out.append(Cover::Plain, head, Metadata::default(), 0, |w| w.put(payload)).expect("within the limit");
    let mut bytes = Vec::new();
    while !out.is_empty() {
        bytes.extend(out.take(Vec::new()));
    }
    bytes
}

/// A record of frames.
pub(crate) fn record(frames: &[Vec<u8>]) -> Vec<u8> {
    record::build(RecordKind::Plain, &frames.concat())
}

/// The status in the payload of an Error frame.
pub(crate) fn status(payload: &Bytes) -> Status {
    match frame::decode_failure(payload).expect("a good error") {
        Failure::Status(status) => status,
        other => panic!("no status: {other:?}"),
    }
}

fn put_varint(out: &mut Vec<u8>, n: usize) {
    let mut buf = [0; varint::MAX_LEN];
    let len = varint::put(n as u64, &mut buf);
    out.extend_from_slice(&buf[..len]);
}
