//! Decoding values: whatever the bytes, a value or an error; and a value comes back from what it is written as.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque},
    fmt::Debug,
    net::{IpAddr, SocketAddr},
    num::NonZero,
    sync::Arc,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use nalix_core::{
    Packet,
    error::DecodeErrorKind,
    packet::decode_packet,
    schema::{Contract, Fingerprint, compare},
    wire::{Decode, Encode, Limits, Reader, to_vec},
};

use crate::types::{Borrowed, Choice, Exact, Grown, Many, Open, Shape, Tree};

/// The first byte chooses a type, the others are decoded.
pub fn values(input: &[u8]) {
    let Some((&which, input)) = input.split_first() else { return };
    let input = &Bytes::copy_from_slice(input);
    macro_rules! types {
        ($($n:literal $kind:ident $t:ty;)*) => {
            match which {
                $($n => $kind::<$t>(input),)*
                _ => contracts(input),
            }
        };
    }
    types! {
        0 rigid (u8, u16, u32, u64, u128);
        1 rigid (i8, i16, i32, i64, i128);
        2 rigid (bool, char, ());
        3 rigid (NonZero<u8>, NonZero<i64>, NonZero<u128>);
        4 rigid String;
        5 rigid Bytes;
        6 rigid Vec<u8>;
        7 rigid Vec<u32>;
        8 rigid Vec<String>;
        9 rigid Vec<()>;
        10 rigid Vec<Vec<Vec<bool>>>;
        11 rigid VecDeque<Option<u16>>;
        12 rigid [Option<String>; 3];
        13 rigid Result<Box<u32>, Arc<str>>;
        14 rigid (IpAddr, SocketAddr);
        15 rigid Duration;
        16 rigid SystemTime;
        17 rigid Cow<'static, [u64]>;
        18 loose BTreeMap<String, Vec<u8>>;
        19 loose BTreeSet<i16>;
        20 loose HashMap<u8, HashSet<u16>>;
        21 loose HashSet<(u8, String)>;
        22 rigid Shape;
        23 loose Grown;
        24 loose Choice;
        25 rigid Tree;
        26 loose Many<u8, 4>;
        27 loose Many<Shape, 1>;
        28 packet Borrowed<'_>;
        29 packet Exact;
        30 packet Open;
        31 rigid (f32, Vec<f64>);
        32 rigid Borrowed<'_>;
        33 loose Exact;
        34 loose Open;
    }
}

/// A type whose values have one encoding each: what has been read is written as the same bytes.
fn rigid<'de, T: Encode + Decode<'de>>(input: &'de Bytes) {
    let mut r = Reader::from_bytes(input, &Limits::DEFAULT);
    if let Ok(value) = T::decode(&mut r) {
        let used = input.len() - r.remaining();
        assert!(used >= T::MIN_SIZE);
        assert_eq!(to_vec(&value).unwrap(), input[..used]);
    }
}

/// A type whose values may be written in several ways: what is written is read as the same value.
fn loose<T: Encode + for<'a> Decode<'a> + PartialEq + Debug>(input: &Bytes) {
    if let Ok(value) = T::decode(&mut Reader::from_bytes(input, &Limits::DEFAULT)) {
        let bytes = Bytes::from(to_vec(&value).unwrap());
        let mut r = Reader::from_bytes(&bytes, &Limits::DEFAULT);
        assert_eq!(T::decode(&mut r), Ok(value));
        assert_eq!(r.finish(), Ok(()));
    }
}

/// At top level, bytes behind a packet are ignored, or make an exact one malformed.
fn packet<'de, P: Packet + Decode<'de> + PartialEq + Debug>(input: &'de Bytes) {
    let mut r = Reader::from_bytes(input, &Limits::DEFAULT);
    let value = P::decode(&mut r);
    let left = r.remaining();
    match decode_packet::<P>(input, &Limits::DEFAULT) {
        Err(error) if P::EXACT && value.is_ok() => {
            assert_eq!(error.kind, DecodeErrorKind::TrailingBytes { left });
            assert_ne!(left, 0);
        }
        read => {
            assert!(!P::EXACT || read.is_err() || left == 0);
            assert_eq!(read, value);
        }
    }
}

/// What a peer says of its packets.
fn contracts(input: &Bytes) {
    let mut r = Reader::from_bytes(input, &Limits::DEFAULT);
    let Ok(one) = Contract::decode(&mut r) else { return };
    let bytes = to_vec(&one).unwrap();
    assert_eq!(Contract::decode(&mut Reader::new(&bytes, &Limits::DEFAULT)).as_ref(), Ok(&one));
    assert_eq!(compare(&one, &one), Ok(()));
    let fingerprint = Fingerprint::of(&one);
    let _ = one.to_string();
    let Ok(other) = Contract::decode(&mut r) else { return };
    // Whether they fit does not depend on who asks.
    let fits = compare(&one, &other).is_ok();
    assert_eq!(compare(&other, &one).is_ok(), fits);
    if fingerprint == Fingerprint::of(&other) {
        assert!(fits, "{one}\n{other}");
    }
}
