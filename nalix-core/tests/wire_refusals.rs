//! Bytes that are no value, each with its own error; and what `max_len` refuses.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque},
    convert::Infallible,
    fmt::Debug,
    net::{IpAddr, SocketAddr},
    num::NonZero,
    sync::Arc,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use nalix_core::{
    borrowed,
    error::{DecodeErrorKind as Kind, EncodeError},
    schema::Schema,
    wire::{Decode, Encode, Len, Limits, Reader, Writer, from_slice, to_vec},
};

fn refused<T: Decode<'static> + Debug>(input: &'static [u8], kind: Kind) {
    assert_eq!(from_slice::<T>(input).unwrap_err().kind, kind, "{}", std::any::type_name::<T>());
}

#[test]
fn flags_are_0_or_1() {
    refused::<bool>(&[2], Kind::BadFlag { found: 2 });
    refused::<Option<u8>>(&[0xff, 0], Kind::BadFlag { found: 0xff });
    refused::<Result<u8, u8>>(&[3, 0], Kind::BadFlag { found: 3 });
    refused::<Vec<bool>>(&[2, 1, 7], Kind::BadFlag { found: 7 });
}

#[test]
fn families_are_0_or_1() {
    refused::<IpAddr>(&[2; 17], Kind::UnknownVariant { found: 2 });
    refused::<SocketAddr>(&[9; 27], Kind::UnknownVariant { found: 9 });
}

#[test]
fn chars_are_scalar_values() {
    refused::<char>(&[0x00, 0xd8, 0, 0], Kind::BadChar);
    refused::<char>(&[0x00, 0x00, 0x11, 0], Kind::BadChar);
}

#[test]
fn strings_are_utf8() {
    refused::<String>(&[1, 0xff], Kind::NotUtf8);
    refused::<&str>(&[2, 0xc3, 0x28], Kind::NotUtf8);
    refused::<Arc<str>>(&[1, 0x80], Kind::NotUtf8);
    refused::<Cow<'_, str>>(&[1, 0x80], Kind::NotUtf8);
}

#[test]
fn keys_come_once() {
    refused::<HashMap<u8, u8>>(&[2, 1, 5, 1, 6], Kind::DuplicateKey);
    refused::<BTreeMap<u8, u8>>(&[2, 1, 5, 1, 5], Kind::DuplicateKey);
    refused::<HashSet<u8>>(&[3, 1, 2, 1], Kind::DuplicateKey);
    refused::<BTreeSet<u8>>(&[3, 1, 2, 1], Kind::DuplicateKey);
    refused::<BTreeSet<()>>(&[2], Kind::DuplicateKey);
    assert_eq!(from_slice::<BTreeSet<u8>>(&[3, 9, 2, 1]), Ok(BTreeSet::from([1, 2, 9])), "any order will do");
}

#[test]
fn numbers_keep_to_their_range() {
    refused::<NonZero<u16>>(&[0, 0], Kind::OutOfRange { expected: "NonZero<u16>" });
    refused::<NonZero<i128>>(&[0; 16], Kind::OutOfRange { expected: "NonZero<i128>" });
    refused::<Infallible>(&[0], Kind::UnknownVariant { found: 0 });
}

#[test]
fn moments_keep_to_their_range() {
    let nanos = |secs: i64, nanos: u32| [&secs.to_le_bytes()[..], &nanos.to_le_bytes()].concat();
    let kind = |input: &[u8]| from_slice::<Duration>(input).map_err(|e| e.kind);
    assert_eq!(kind(&nanos(1, 1_000_000_000)), Err(Kind::OutOfRange { expected: "nanoseconds" }));
    assert_eq!(kind(&nanos(1, u32::MAX)), Err(Kind::OutOfRange { expected: "nanoseconds" }));
    assert_eq!(kind(&nanos(-1, 999_999_999)), Ok(Duration::MAX));
    for secs in [i64::MIN, i64::MIN + 1, -1, 0, i64::MAX - 1, i64::MAX] {
        for n in [0, 1, 999_999_999] {
            // What the platform can hold comes back the same; what it cannot is an error, never a panic.
            let bytes = nanos(secs, n);
            match from_slice::<SystemTime>(&bytes) {
                Ok(time) => assert_eq!(to_vec(&time).unwrap(), bytes),
                Err(error) => assert_eq!(error.kind, Kind::OutOfRange { expected: "SystemTime" }),
            }
        }
    }
}

#[test]
fn lengths_are_canonical_and_within_the_input() {
    refused::<String>(&[0x81, 0x00, b'a'], Kind::BadVarint);
    refused::<Vec<u8>>(&[0x80, 0x00], Kind::BadVarint);
    refused::<&[u8]>(&[3, 1, 2], Kind::Truncated { missing: 1 });
    refused::<Vec<u64>>(&[2, 0, 0, 0, 0, 0, 0, 0, 0], Kind::Truncated { missing: 8 });
    refused::<String>(&[], Kind::Truncated { missing: 1 });
    refused::<u8>(&[1, 2], Kind::TrailingBytes { left: 1 });
}

/// All items of no size that a message claims count together, so that a few bytes stay cheap.
#[test]
fn items_of_no_size_are_bounded_for_the_message() {
    let mut input = vec![2];
    for _ in 0..2 {
        input.extend(to_vec(&vec![(); 40_000]).unwrap());
    }
    let error = from_slice::<Vec<Vec<()>>>(&input).unwrap_err();
    assert!(matches!(error.kind, Kind::TooLong { found: 40_000, .. }), "{error}");
    assert!(from_slice::<Vec<()>>(&to_vec(&vec![(); 65_536]).unwrap()).is_ok());
}

#[test]
fn max_len_refuses_before_anything_is_read() {
    let over = Kind::TooLong { found: 200, limit: 199 };
    // There is no byte behind the length: an error about the limit shows that it comes first.
    assert_eq!(within::<String>(199, &[0xc8, 0x01]), Err(over.clone()));
    assert_eq!(within::<Vec<Box<()>>>(199, &[0xc8, 0x01]), Err(over.clone()));
    assert_eq!(within::<Option<Bytes>>(199, &[1, 0xc8, 0x01]), Err(over.clone()));
    assert_eq!(within::<HashMap<u8, u8>>(199, &[0xc8, 0x01]), Err(over.clone()));
    assert_eq!(within::<BTreeSet<u8>>(199, &[0xc8, 0x01]), Err(over.clone()));
    assert_eq!(within::<VecDeque<u8>>(199, &[0xc8, 0x01]), Err(over));
    assert_eq!(within::<String>(2, b"\x02ab"), Ok(()));
    assert_eq!(within::<String>(0, &[0]), Ok(()));
}

#[test]
fn max_len_is_for_one_length_only() {
    // The items are longer than the vector may be.
    assert_eq!(within::<Vec<String>>(1, b"\x01\x05hello"), Ok(()));
    // A `None` leaves the limit unused; it must not fall on what follows.
    let mut r = Reader::new(b"\0\x05hello", &Limits::DEFAULT);
    assert_eq!(r.with_max_len(1, Option::<String>::decode), Ok(None));
    assert_eq!(String::decode(&mut r).as_deref(), Ok("hello"));
}

fn within<T: for<'de> Decode<'de>>(limit: usize, input: &[u8]) -> Result<(), Kind> {
    Reader::new(input, &Limits::DEFAULT).with_max_len(limit, T::decode).map(drop).map_err(|error| error.kind)
}

#[test]
fn lengths_are_those_on_the_wire() {
    assert_eq!("héllo".wire_len(), 6);
    assert_eq!(Some(String::from("ab")).wire_len(), 2);
    assert_eq!(None::<Vec<u8>>.wire_len(), 0);
    assert_eq!([1u16, 2][..].wire_len(), 2);
    assert_eq!((&&vec![1u64]).wire_len(), 1);
    assert_eq!(Bytes::from_static(b"abc").wire_len(), 3);
    assert_eq!(Cow::Borrowed("abc").wire_len(), 3);
    assert_eq!(Box::<str>::from("abc").wire_len(), 3);
    assert_eq!(HashMap::<u8, u8>::new().wire_len(), 0);
    assert_eq!(BTreeSet::from([1, 2, 3]).wire_len(), 3);
}

#[test]
fn cows_borrow_where_they_are_told_to() {
    let input = b"\x02ab";
    let owned: Cow<'static, str> = from_slice(input).unwrap();
    assert!(matches!(owned, Cow::Owned(_)));
    let text = borrowed::text::decode(&mut Reader::new(input, &Limits::DEFAULT)).unwrap();
    assert!(matches!(text, Cow::Borrowed("ab")));
    let bytes = borrowed::bytes::decode(&mut Reader::new(input, &Limits::DEFAULT)).unwrap();
    assert!(matches!(bytes, Cow::Borrowed(b"ab")));
    let mut out = Vec::new();
    borrowed::text::encode(&text, &mut Writer::new(&mut out, 10));
    borrowed::bytes::encode(&bytes, &mut Writer::new(&mut out, 10));
    assert_eq!(out, b"\x02ab\x02ab");
}

#[test]
fn byte_buffers_are_slices_of_the_source() {
    let source = Bytes::from_static(b"\x03abc\x00");
    let mut r = Reader::from_bytes(&source, &Limits::DEFAULT);
    let taken = Bytes::decode(&mut r).unwrap();
    assert_eq!(taken.as_ptr(), source[1..].as_ptr());
    assert_eq!(Bytes::decode(&mut r).as_deref(), Ok(&b""[..]));
    assert!(r.is_empty());
}

#[test]
fn a_message_that_is_too_large_leaves_nothing_behind() {
    let value = ("hello".to_owned(), vec![1u32, 2, 3], Some(7u64));
    let size = to_vec(&value).unwrap().len();
    for limit in 0..size {
        let mut out = b"before".to_vec();
        let mut w = Writer::new(&mut out, limit);
        value.encode(&mut w);
        assert_eq!(w.finish(), Err(EncodeError::MessageTooLarge { limit }));
        assert_eq!(out, b"before");
    }
    let mut out = b"before".to_vec();
    let mut w = Writer::new(&mut out, size);
    value.encode(&mut w);
    assert_eq!(w.finish(), Ok(size));
}

#[test]
fn scopes_hold_any_length() {
    for len in [0usize, 1, 127, 128, 129, 16_383, 16_384, 70_000] {
        let body = vec![7; len];
        let mut out = b"before".to_vec();
        let mut w = Writer::new(&mut out, usize::MAX);
        w.scope(|w| w.put(&body));
        w.put_u8(9);
        w.finish().unwrap();
        let mut r = Reader::new(&out[6..], &Limits::DEFAULT);
        let inside = r.len().unwrap();
        assert_eq!(inside, len);
        let scope = r.enter_scope(inside).unwrap();
        assert_eq!(r.bytes(len / 2).unwrap(), &body[..len / 2]);
        r.leave_scope(scope);
        assert_eq!((r.u8(), r.is_empty()), (Ok(9), true));
    }
}

#[test]
fn a_schema_refers_to_what_it_has() {
    refused::<Schema>(&[0, 9, 0], Kind::OutOfRange { expected: "reference to a named type" });
    refused::<Schema>(&[0, 3, 9, 5], Kind::OutOfRange { expected: "reference to a named type" });
    refused::<Schema>(&[0, 42], Kind::UnknownVariant { found: 42 });
    let mut deep = vec![0];
    deep.extend([3; 100_000]);
    assert_eq!(from_slice::<Schema>(&deep).unwrap_err().kind, Kind::TooDeep { limit: 64 });
}
