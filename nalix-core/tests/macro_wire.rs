//! `#[derive(Wire)]`: what each form of type and each attribute puts on the wire, and that it comes back.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    collections::BTreeMap,
    fmt::Debug,
    marker::PhantomData,
    mem::ManuallyDrop,
    net::IpAddr,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use nalix_core::{
    Failure, Status, Wire, borrowed,
    error::{DecodeErrorKind, EncodeError},
    schema::{Schema, Type},
    wire::{Decode, Encode, from_slice, to_vec},
};

/// Checks the bytes of a value and that they decode to it.
fn check<T: Encode + for<'de> Decode<'de> + PartialEq + Debug>(value: &T, bytes: &[u8]) {
    assert_eq!(to_vec(value).unwrap(), bytes);
    assert_eq!(&from_slice::<T>(bytes).unwrap(), value);
}

#[derive(Debug, PartialEq, Wire)]
struct Named {
    a: u8,
    b: String,
}

#[derive(Debug, PartialEq, Wire)]
struct Tuple(u16, bool);

#[derive(Debug, PartialEq, Wire)]
struct Unit;

#[derive(Debug, PartialEq, Wire)]
struct NoFields {}

#[derive(Debug, PartialEq, Wire)]
enum Choice {
    A,
    B(u8, Named),
    C { x: i16 },
    D(),
}

#[derive(Debug, Wire)]
enum Never {}

#[test]
fn forms() {
    check(&Named { a: 1, b: "hi".into() }, &[1, 2, b'h', b'i']);
    check(&Tuple(0x0102, true), &[2, 1, 1]);
    check(&Unit, &[]);
    check(&NoFields {}, &[]);
    check(&Choice::A, &[0]);
    check(&Choice::B(7, Named { a: 1, b: String::new() }), &[1, 7, 1, 0]);
    check(&Choice::C { x: -1 }, &[2, 0xff, 0xff]);
    check(&Choice::D(), &[3]);
}

#[test]
fn variants_that_are_not_there() {
    let error = from_slice::<Choice>(&[4]).unwrap_err();
    assert_eq!(error.kind, DecodeErrorKind::UnknownVariant { found: 4 });
    assert_eq!(error.to_string(), "Choice: no variant 4");
    let error = from_slice::<Never>(&[0]).unwrap_err();
    assert_eq!(error.kind, DecodeErrorKind::UnknownVariant { found: 0 });
}

/// Every kind of type that may be a field.
#[derive(Debug, Clone, PartialEq, Wire)]
struct Everything {
    numbers: (u8, i16, u32, i64, u128, f32, f64),
    flag: bool,
    letter: char,
    text: String,
    bytes: Bytes,
    list: Vec<Option<Box<str>>>,
    array: [u16; 3],
    map: BTreeMap<String, Vec<u8>>,
    span: Duration,
    time: SystemTime,
    address: IpAddr,
    nothing: (),
    marker: PhantomData<Never>,
    result: Result<u8, String>,
}

#[test]
fn types_of_fields() {
    let value = Everything {
        numbers: (1, -2, 3, -4, 5, 6.5, -7.25),
        flag: true,
        letter: 'é',
        text: "text".into(),
        bytes: Bytes::from_static(b"bytes"),
        list: vec![None, Some("some".into())],
        array: [1, 2, 3],
        map: BTreeMap::from([("key".into(), vec![1, 2])]),
        span: Duration::new(1, 2),
        time: SystemTime::UNIX_EPOCH + Duration::from_secs(10),
        address: [127, 0, 0, 1].into(),
        nothing: (),
        marker: PhantomData,
        result: Err("no".into()),
    };
    let bytes = to_vec(&value).unwrap();
    assert_eq!(from_slice::<Everything>(&bytes).unwrap(), value);
    for cut in 0..bytes.len() {
        assert!(from_slice::<Everything>(&bytes[..cut]).is_err(), "{cut}");
    }
}

#[derive(Debug, PartialEq, Wire)]
struct Varints {
    #[wire(varint)]
    small: u16,
    #[wire(varint)]
    signed: i32,
    #[wire(varint)]
    large: u64,
}

#[test]
fn varints() {
    check(&Varints { small: 300, signed: -1, large: 0 }, &[0xac, 0x02, 1, 0]);
    let error = from_slice::<Varints>(&[0x80, 0x80, 0x04, 0, 0]).unwrap_err();
    assert_eq!(error.to_string(), "Varints.small: value out of range for u16");
    let error = from_slice::<Varints>(&[0x80, 0x00, 0, 0]).unwrap_err();
    assert_eq!(error.to_string(), "Varints.small: varint is not canonical or too large");
}

fn nine() -> u8 {
    9
}

#[derive(Debug, PartialEq, Wire)]
struct Skipping {
    a: u8,
    #[wire(skip)]
    cache: Option<std::thread::ThreadId>,
    #[wire(skip, default = nine)]
    nine: u8,
    b: u8,
}

#[derive(Debug, PartialEq, Wire)]
enum SkippingVariant {
    A(#[wire(skip)] u8, u8, #[wire(skip, default = nine)] u8),
}

#[test]
fn skipped_fields() {
    let value = Skipping { a: 1, cache: Some(std::thread::current().id()), nine: 0, b: 2 };
    assert_eq!(to_vec(&value).unwrap(), [1, 2]);
    assert_eq!(from_slice::<Skipping>(&[1, 2]).unwrap(), Skipping { a: 1, cache: None, nine: 9, b: 2 });
    assert_eq!(to_vec(&SkippingVariant::A(1, 2, 3)).unwrap(), [0, 2]);
    assert_eq!(from_slice::<SkippingVariant>(&[0, 2]).unwrap(), SkippingVariant::A(0, 2, 9));
}

/// An encoding of our own: a number as decimal digits.
mod digits {
    use nalix_core::{
        error::{DecodeError, DecodeErrorKind},
        schema::{SchemaBuilder, Type},
        wire::{Decode, Encode, Reader, Writer},
    };

    pub(crate) fn encode(value: &u64, w: &mut Writer<'_>) {
        value.to_string().encode(w);
    }

    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<u64, DecodeError> {
        let digits = <&str>::decode(r)?;
        digits.parse().map_err(|_| DecodeErrorKind::Custom("not a number").into())
    }

    pub(crate) fn describe(_: &mut SchemaBuilder) -> Type {
        Type::primitive("digits")
    }
}

#[derive(Debug, PartialEq, Wire)]
struct Own<'a> {
    #[wire(with = digits)]
    number: u64,
    #[wire(with = borrowed::text, rename = "label")]
    text: std::borrow::Cow<'a, str>,
    #[wire(with = digits, since = 2, default = forty)]
    later: u64,
}

fn forty() -> u64 {
    40
}

#[test]
fn codecs_of_ones_own() {
    let value = Own { number: 12, text: "x".into(), later: 3 };
    let bytes = to_vec(&value).unwrap();
    assert_eq!(bytes, [2, b'1', b'2', 1, b'x', 1, b'3']);
    let back = from_slice::<Own<'_>>(&bytes).unwrap();
    assert!(matches!(back.text, std::borrow::Cow::Borrowed("x")));
    assert_eq!(back, value);
    assert_eq!(from_slice::<Own<'_>>(&bytes[..5]).unwrap().later, 40);
    let error = from_slice::<Own<'_>>(&[1, b'a', 0]).unwrap_err();
    assert_eq!(error.to_string(), "Own.number: not a number");
}

#[derive(Debug, PartialEq, Wire)]
#[wire(rename = "Renamed")]
struct OriginalName {
    #[wire(rename = "type")]
    kind: u8,
    inner: Inner,
}

#[derive(Debug, PartialEq, Wire)]
enum Inner {
    #[wire(rename = "async")]
    Async {
        #[wire(rename = "await")]
        wait: u16,
    },
}

#[test]
fn names() {
    let printed = Schema::of::<OriginalName>().to_string();
    for name in ["Renamed", "type", "async", "await"] {
        assert!(printed.contains(name), "{name} in {printed}");
    }
    for name in ["OriginalName", "kind", "Async", " wait"] {
        assert!(!printed.contains(name), "{name} in {printed}");
    }
    let error = from_slice::<OriginalName>(&[]).unwrap_err();
    assert_eq!(error.field, Some("Renamed.type"));
    let error = from_slice::<OriginalName>(&[1, 0, 1]).unwrap_err();
    assert_eq!(error.field, Some("Inner::async.await"), "the innermost one is named");
}

#[derive(Debug, PartialEq, Wire)]
struct Bounded<const N: usize> {
    #[wire(max_len = 3)]
    text: String,
    #[wire(max_len = N + 1)]
    list: Vec<Vec<u8>>,
    #[wire(max_len = LIMIT)]
    maybe: Option<Bytes>,
    last: Vec<u8>,
}

const LIMIT: usize = 2;

#[test]
fn lengths_are_bounded_on_both_sides() {
    let fits = Bounded::<1> {
        text: "abc".into(),
        list: vec![vec![0; 9], vec![]],
        maybe: Some(Bytes::from_static(b"ab")),
        last: vec![0; 9],
    };
    let bytes = to_vec(&fits).unwrap();
    assert_eq!(from_slice::<Bounded<1>>(&bytes).unwrap(), fits);

    let refused = |field, len, limit| Err(EncodeError::TooLong { field, len, limit });
    let long = Bounded::<1> { text: "abcd".into(), list: vec![], maybe: None, last: vec![] };
    assert_eq!(to_vec(&long), refused("Bounded.text", 4, 3));
    let long = Bounded::<1> { text: "".into(), list: vec![vec![]; 3], maybe: None, last: vec![] };
    assert_eq!(to_vec(&long), refused("Bounded.list", 3, 2));
    let long =
        Bounded::<1> { text: "".into(), list: vec![], maybe: Some(Bytes::from_static(b"abc")), last: vec![] };
    assert_eq!(to_vec(&long), refused("Bounded.maybe", 3, 2));

    let text = |bytes: &[u8]| from_slice::<Bounded<1>>(bytes).unwrap_err().to_string();
    assert_eq!(text(&[4, 0, 0, 0, 0]), "Bounded.text: length 4 is over the limit of 3");
    assert_eq!(text(&[0, 3, 0, 0, 0, 0]), "Bounded.list: length 3 is over the limit of 2");
    assert_eq!(text(&[0, 0, 1, 3, 0, 0, 0]), "Bounded.maybe: length 3 is over the limit of 2");
    // The limit of an absent value does not fall on the next field.
    assert!(from_slice::<Bounded<1>>(&[0, 0, 0, 3, 0, 0, 0]).is_ok());
}

#[derive(Debug, PartialEq, Wire)]
struct List {
    value: u8,
    next: Option<Box<Self>>,
}

#[derive(Debug, PartialEq, Wire)]
enum Tree {
    Leaf,
    Node(Vec<Tree>),
    Named(BTreeMap<String, Tree>),
}

#[derive(Debug, PartialEq, Wire)]
#[wire(max_depth = 3)]
struct Shallow(List);

#[derive(Debug, PartialEq, Wire)]
struct ShallowField {
    #[wire(max_depth = 3)]
    list: List,
    deep: List,
}

fn list(depth: usize) -> List {
    (1..depth).fold(List { value: 0, next: None }, |next, _| List { value: 0, next: Some(Box::new(next)) })
}

fn too_deep(limit: u16) -> DecodeErrorKind {
    DecodeErrorKind::TooDeep { limit }
}

#[test]
fn recursion_is_bounded_on_both_sides() {
    let tree = Tree::Node(vec![Tree::Leaf, Tree::Named(BTreeMap::from([("a".into(), Tree::Node(vec![]))]))]);
    let bytes = to_vec(&tree).unwrap();
    assert_eq!(from_slice::<Tree>(&bytes).unwrap(), tree);

    let bytes = to_vec(&list(50)).unwrap();
    assert_eq!(from_slice::<List>(&bytes).unwrap(), list(50));
    assert_eq!(to_vec(&list(100)), Err(EncodeError::TooDeep { limit: 64 }));
    let deep = ManuallyDrop::new(list(100_000)); // dropping it would recurse
    assert_eq!(to_vec(&*deep), Err(EncodeError::TooDeep { limit: 64 }));
    assert_eq!(from_slice::<List>(&[0, 1].repeat(100_000)).unwrap_err().kind, too_deep(64));

    let bytes = to_vec(&Shallow(list(4))).unwrap();
    assert_eq!(from_slice::<Shallow>(&bytes).unwrap(), Shallow(list(4)));
    assert_eq!(to_vec(&Shallow(list(5))), Err(EncodeError::TooDeep { limit: 3 }));
    assert_eq!(from_slice::<Shallow>(&to_vec(&list(5)).unwrap()).unwrap_err().kind, too_deep(3));

    let bytes = to_vec(&ShallowField { list: list(4), deep: list(9) }).unwrap();
    assert_eq!(from_slice::<ShallowField>(&bytes).unwrap().deep, list(9), "the bound is that of one field");
    let deep = ShallowField { list: list(5), deep: list(1) };
    assert_eq!(to_vec(&deep), Err(EncodeError::TooDeep { limit: 3 }));
}

#[test]
fn sizes_are_known() {
    #[derive(Wire)]
    struct Fixed {
        a: u8,
        b: (u32, [u16; 3]),
        c: Flat,
    }
    #[derive(Wire)]
    enum Flat {
        A,
        B,
    }
    #[derive(Wire)]
    #[wire(extensible)]
    struct Extensible;

    assert_eq!(Fixed::FIXED_SIZE, Some(12));
    assert_eq!(Fixed::MIN_SIZE, 12);
    assert_eq!(Flat::FIXED_SIZE, Some(1));
    assert_eq!(Unit::FIXED_SIZE, Some(0));
    assert_eq!(Named::FIXED_SIZE, None);
    assert_eq!(Named::MIN_SIZE, 2);
    assert_eq!(Choice::MIN_SIZE, 1);
    assert_eq!(List::FIXED_SIZE, None);
    assert_eq!(List::MIN_SIZE, 2);
    assert_eq!(Own::MIN_SIZE, 0);
    assert_eq!(Varints::MIN_SIZE, 3);
    assert_eq!(Extensible::FIXED_SIZE, None);
    assert_eq!(Extensible::MIN_SIZE, 1);
    // A count is refused by what its items take at the least, before anything is reserved.
    assert_eq!(
        from_slice::<Vec<Fixed>>(&[2, 0, 0]).err().map(|e| e.kind),
        Some(DecodeErrorKind::Truncated { missing: 22 })
    );
}

#[test]
fn question_mark_makes_failures() {
    #[derive(Debug, PartialEq, Wire)]
    enum Refusal {
        No,
    }
    fn application() -> Result<(), Failure<Refusal>> {
        Err(Refusal::No)?
    }
    fn status() -> Result<(), Failure<Refusal>> {
        Err(Status::not_found(""))?
    }
    assert_eq!(application(), Err(Failure::Application(Refusal::No)));
    assert!(matches!(status(), Err(Failure::Status(_))));
}

#[test]
fn schemas_of_recursive_and_generic_types_end() {
    #[derive(Wire)]
    struct Pair<A, B>(A, B);

    let schema = Schema::of::<List>();
    assert_eq!((schema.defs.len(), schema.root), (1, Type::Named(0)));
    let schema = Schema::of::<Pair<Pair<u8, u8>, Pair<u16, Option<Box<List>>>>>();
    assert_eq!(schema.defs.len(), 4, "{schema}");
    assert_ne!(Schema::of::<Pair<u8, u16>>(), Schema::of::<Pair<u16, u8>>());
}
