//! The rules of growth: peers of different versions read each other's packets and extensible values.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use bytes::Bytes;
use nalix_core::{
    Packet, Wire,
    error::DecodeErrorKind,
    packet,
    packet::{decode_packet, decode_value},
    schema::{Contract, Schema, compare},
    wire::{Decode, Encode, Limits, from_slice, to_vec},
};

/// The same packet in three versions of a program.
mod v1 {
    #[nalix_core::packet(opcode = 0x1001, rename = "Move1")]
    #[derive(Debug, PartialEq)]
    pub(super) struct Move {
        pub(super) x: u8,
    }
}

mod v2 {
    #[nalix_core::packet(opcode = 0x1002, rename = "Move2")]
    #[derive(Debug, PartialEq)]
    pub(super) struct Move {
        pub(super) x: u8,
        #[wire(since = 2)]
        pub(super) y: u16,
        #[wire(since = 2, default = super::unnamed)]
        pub(super) name: String,
    }
}

mod v3 {
    #[nalix_core::packet(opcode = 0x1003, rename = "Move3")]
    #[derive(Debug, PartialEq)]
    pub(super) struct Move {
        pub(super) x: u8,
        #[wire(since = 2)]
        pub(super) y: u16,
        #[wire(since = 2, default = super::unnamed)]
        pub(super) name: String,
        #[wire(since = 3)]
        pub(super) z: Option<u8>,
    }
}

fn unnamed() -> String {
    "unnamed".into()
}

fn sent_as<A: Encode, B: Packet + for<'de> Decode<'de>>(value: &A) -> B {
    decode_packet(&Bytes::from(to_vec(value).unwrap()), &Limits::DEFAULT).unwrap()
}

#[test]
fn packets_grow_at_the_end() {
    let old = v1::Move { x: 1 };
    assert_eq!(sent_as::<_, v2::Move>(&old), v2::Move { x: 1, y: 0, name: unnamed() });
    assert_eq!(sent_as::<_, v3::Move>(&old), v3::Move { x: 1, y: 0, name: unnamed(), z: None });
    let middle = v2::Move { x: 1, y: 2, name: "n".into() };
    assert_eq!(sent_as::<_, v1::Move>(&middle), v1::Move { x: 1 });
    assert_eq!(sent_as::<_, v3::Move>(&middle), v3::Move { x: 1, y: 2, name: "n".into(), z: None });
    let new = v3::Move { x: 1, y: 2, name: "n".into(), z: Some(3) };
    assert_eq!(sent_as::<_, v1::Move>(&new), v1::Move { x: 1 });
    assert_eq!(sent_as::<_, v2::Move>(&new), middle);
}

#[test]
fn a_field_is_there_or_not_but_never_in_part() {
    let error = from_slice::<v2::Move>(&[1, 2]).unwrap_err();
    assert_eq!(error.kind, DecodeErrorKind::Truncated { missing: 1 });
    assert_eq!(error.field, Some("Move2.y"));
}

#[test]
fn replies_grow_like_packets() {
    #[derive(Debug, PartialEq, Wire)]
    struct Old(u8);
    #[derive(Debug, PartialEq, Wire)]
    struct New(u8, #[wire(since = 2)] u8);

    let bytes = Bytes::from(to_vec(&New(1, 2)).unwrap());
    assert_eq!(decode_value::<Old>(&bytes, &Limits::DEFAULT), Ok(Old(1)));
    let bytes = Bytes::from(to_vec(&Old(1)).unwrap());
    assert_eq!(decode_value::<New>(&bytes, &Limits::DEFAULT), Ok(New(1, 0)));
}

#[packet(opcode = 0x1101, exact)]
#[derive(Debug, PartialEq)]
struct Exact {
    a: u8,
}

#[test]
fn exact_packets_refuse_trailing_bytes() {
    let decode = |bytes: &'static [u8]| decode_packet::<Exact>(&Bytes::from_static(bytes), &Limits::DEFAULT);
    assert_eq!(decode(&[1]), Ok(Exact { a: 1 }));
    assert_eq!(decode(&[1, 2]).unwrap_err().kind, DecodeErrorKind::TrailingBytes { left: 1 });
}

mod nested {
    use nalix_core::Wire;

    #[derive(Debug, PartialEq, Wire)]
    #[wire(extensible, rename = "Item")]
    pub(super) struct Old {
        pub(super) id: u8,
    }

    #[derive(Debug, PartialEq, Wire)]
    #[wire(extensible, rename = "Item")]
    pub(super) struct New {
        pub(super) id: u8,
        #[wire(since = 2)]
        pub(super) tags: Vec<u8>,
    }

    #[derive(Debug, PartialEq, Wire)]
    #[wire(extensible)]
    pub(super) enum Event {
        A { a: u8 },
    }
}

#[test]
fn extensible_values_grow_where_they_are_nested() {
    let old = vec![nested::Old { id: 1 }, nested::Old { id: 2 }];
    let bytes = to_vec(&old).unwrap();
    assert_eq!(bytes, [2, 1, 1, 1, 2]);
    let read: Vec<nested::New> = from_slice(&bytes).unwrap();
    assert_eq!(read, [nested::New { id: 1, tags: vec![] }, nested::New { id: 2, tags: vec![] }]);

    // Long enough that the length in front takes two bytes.
    let new = vec![nested::New { id: 1, tags: vec![7; 200] }, nested::New { id: 2, tags: vec![] }];
    let read: Vec<nested::Old> = from_slice(&to_vec(&new).unwrap()).unwrap();
    assert_eq!(read, old);
    let read: Vec<nested::New> = from_slice(&to_vec(&new).unwrap()).unwrap();
    assert_eq!(read, new);

    assert_eq!(from_slice::<nested::Event>(&[3, 0, 7, 99]).unwrap(), nested::Event::A { a: 7 });
    let error = from_slice::<nested::New>(&[9, 1]).unwrap_err();
    assert!(matches!(error.kind, DecodeErrorKind::Truncated { .. }), "a length beyond the input");
    let error = from_slice::<nested::New>(&[2, 1, 5, 0, 0, 0, 0, 0]).unwrap_err();
    assert!(
        matches!(error.kind, DecodeErrorKind::Truncated { .. }),
        "a value does not read beyond its length"
    );
}

#[test]
fn schemas_know_the_rules() {
    let contract = |schema| Contract::new(schema, None, None);
    let (one, three) = (contract(Schema::of::<v1::Move>()), contract(Schema::of::<v3::Move>()));
    assert_eq!(compare(&one, &three), Ok(()));
    assert_eq!(compare(&three, &one), Ok(()));
    let (old, new) = (contract(Schema::of::<Vec<nested::Old>>()), contract(Schema::of::<Vec<nested::New>>()));
    assert_eq!(compare(&old, &new), Ok(()));
    let exact = contract(Schema::of::<Exact>());
    assert!(compare(&exact, &three).is_err());
}
