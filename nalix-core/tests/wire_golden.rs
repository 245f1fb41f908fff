//! Every standard type against the bytes in `golden/values.txt`, both ways.
//!
//! The file is what a second implementation is checked with. It never changes: a layout that differs is another version of
//! the protocol.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque},
    convert::Infallible,
    fmt::Debug,
    marker::PhantomData,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6},
    num::NonZero,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use nalix_core::wire::{Decode, Encode, Writer, from_slice, to_vec, varint::Varint};

const GOLDEN: &str = include_str!("golden/values.txt");

#[test]
fn values_have_their_golden_bytes() {
    let mut golden = Golden::read();
    numbers(&mut golden);
    texts(&mut golden);
    collections(&mut golden);
    addresses(&mut golden);
    moments(&mut golden);
    golden.finish();
}

fn numbers(golden: &mut Golden) {
    golden.check("u8", "200", 200u8);
    golden.check("u16", "0x1234", 0x1234u16);
    golden.check("u32", "0x12345678", 0x1234_5678u32);
    golden.check("u64", "0x0123456789abcdef", 0x0123_4567_89ab_cdefu64);
    golden.check("u128", "1", 1u128);
    golden.check("u128", "the greatest but one", u128::MAX - 1);
    golden.check("i8", "-1", -1i8);
    golden.check("i16", "-2", -2i16);
    golden.check("i32", "the least", i32::MIN);
    golden.check("i64", "-3", -3i64);
    golden.check("i128", "-1", -1i128);
    golden.check("f32", "1.5", 1.5f32);
    golden.check("f64", "-0.1", -0.1f64);
    golden.check("f64", "minus zero", -0.0f64);
    golden.check("bool", "false", false);
    golden.check("bool", "true", true);
    golden.check("char", "a", 'a');
    golden.check("char", "U+1F980", '\u{1f980}');
    golden.check("nonzero_u8", "1", NonZero::new(1u8).unwrap());
    golden.check("nonzero_u16", "1", NonZero::new(1u16).unwrap());
    golden.check("nonzero_u32", "1", NonZero::new(1u32).unwrap());
    golden.check("nonzero_u64", "1", NonZero::new(1u64).unwrap());
    golden.check("nonzero_u128", "1", NonZero::new(1u128).unwrap());
    golden.check("nonzero_i8", "-1", NonZero::new(-1i8).unwrap());
    golden.check("nonzero_i16", "-1", NonZero::new(-1i16).unwrap());
    golden.check("nonzero_i32", "-1", NonZero::new(-1i32).unwrap());
    golden.check("nonzero_i64", "-1", NonZero::new(-1i64).unwrap());
    golden.check("nonzero_i128", "-1", NonZero::new(-1i128).unwrap());
    golden.check_varint("varint<u16>", "127", 127u16);
    golden.check_varint("varint<u16>", "128", 128u16);
    golden.check_varint("varint<u32>", "300", 300u32);
    golden.check_varint("varint<u64>", "the greatest", u64::MAX);
    golden.check_varint("varint<i16>", "-1", -1i16);
    golden.check_varint("varint<i32>", "64", 64i32);
    golden.check_varint("varint<i64>", "the least", i64::MIN);
}

fn texts(golden: &mut Golden) {
    golden.check("str", "empty", "");
    golden.check("str", "héllo", "héllo");
    golden.check("str", "héllo", "héllo".to_owned());
    golden.check("str", "héllo", Box::<str>::from("héllo"));
    golden.check("str", "héllo", Arc::<str>::from("héllo"));
    golden.check("str", "héllo", Cow::<str>::Borrowed("héllo"));
    golden.check("str", "200 times x", "x".repeat(200));
}

fn collections(golden: &mut Golden) {
    golden.check("()", "the only one", ());
    golden.check("()", "the only one", PhantomData::<String>);
    golden.check("seq<u8>", "1, 2, 255", vec![1u8, 2, 255]);
    golden.check("seq<u8>", "1, 2, 255", &[1u8, 2, 255][..]);
    golden.check("seq<u8>", "1, 2, 255", Bytes::from_static(&[1, 2, 255]));
    golden.check("seq<u8>", "1, 2, 255", Cow::<[u8]>::Borrowed(&[1, 2, 255]));
    golden.check("seq<u8>", "1, 2, 255", Box::<[u8]>::from([1, 2, 255]));
    golden.check("seq<u8>", "1, 2, 255", Arc::<[u8]>::from([1, 2, 255]));
    golden.check("seq<u16>", "empty", Vec::<u16>::new());
    golden.check("seq<u16>", "1, 2", vec![1u16, 2]);
    golden.check("seq<u16>", "1, 2", VecDeque::from([1u16, 2]));
    golden.check("seq<u16>", "1, 2", vec![Box::new(1u16), Box::new(2)]);
    golden.check("seq<str>", "a, bc", vec!["a".to_owned(), "bc".to_owned()]);
    golden.check("seq<bool>", "true, false", vec![true, false]);
    golden.check("seq<f32>", "1", vec![1f32]);
    golden.check("seq<()>", "three", vec![(), (), ()]);
    golden.check("[u16; 3]", "1, 2, 3", [1u16, 2, 3]);
    golden.check("[str; 2]", "a, empty", ["a".to_owned(), String::new()]);
    golden.check("[u8; 0]", "the only one", [0u8; 0]);
    golden.check("option<u16>", "none", None::<u16>);
    golden.check("option<u16>", "some 5", Some(5u16));
    golden.check("option<option<bool>>", "some none", Some(None::<bool>));
    golden.check("u32", "0x12345678", Box::new(0x1234_5678u32));
    golden.check("u32", "0x12345678", Arc::new(0x1234_5678u32));
    golden.check("result<u8, str>", "ok 7", Ok::<u8, String>(7));
    golden.check("result<u8, str>", "err no", Err::<u8, _>("no".to_owned()));
    golden.check("map<u8, str>", "1: a, 2: b", BTreeMap::from([(1u8, "a".to_owned()), (2, "b".to_owned())]));
    golden.check("map<u16, bool>", "1: true", HashMap::<_, _>::from([(1u16, true)]));
    golden.check("set<i8>", "-1, 1", BTreeSet::from([1i8, -1]));
    golden.check("set<i8>", "5", HashSet::<_>::from([5i8]));
    golden.check("tuple<u8>", "1", (1u8,));
    golden.check("tuple<u8, u16, str>", "1, 2, x", (1u8, 2u16, "x".to_owned()));
    golden.check(
        "tuple of 12 u8",
        "1 to 12",
        (1u8, 2u8, 3u8, 4u8, 5u8, 6u8, 7u8, 8u8, 9u8, 10u8, 11u8, 12u8),
    );
    golden.check("result<(), never>", "ok", Ok::<(), Infallible>(()));
}

fn addresses(golden: &mut Golden) {
    let (v4, v6) = (Ipv4Addr::new(127, 0, 0, 1), "2001:db8::1".parse::<Ipv6Addr>().unwrap());
    golden.check("ipv4", "127.0.0.1", v4);
    golden.check("ipv6", "2001:db8::1", v6);
    golden.check("ip", "127.0.0.1", IpAddr::V4(v4));
    golden.check("ip", "2001:db8::1", IpAddr::V6(v6));
    let (v4, v6) = (SocketAddrV4::new(v4, 8080), SocketAddrV6::new(v6, 443, 7, 9));
    golden.check("socket_addr_v4", "127.0.0.1:8080", v4);
    golden.check("socket_addr_v6", "[2001:db8::1]:443, flow 7, scope 9", v6);
    golden.check("socket_addr", "127.0.0.1:8080", SocketAddr::V4(v4));
    golden.check("socket_addr", "[2001:db8::1]:443, flow 7, scope 9", SocketAddr::V6(v6));
}

fn moments(golden: &mut Golden) {
    golden.check("duration", "1.5 s", Duration::from_millis(1_500));
    golden.check("duration", "the greatest", Duration::MAX);
    golden.check("system_time", "1970", UNIX_EPOCH);
    golden.check("system_time", "1.5 s after 1970", UNIX_EPOCH + Duration::from_millis(1_500));
    golden.check("system_time", "0.25 s before 1970", UNIX_EPOCH - Duration::from_millis(250));
    golden.check("system_time", "2 s before 1970", UNIX_EPOCH - Duration::from_secs(2));
    let y2k: SystemTime = UNIX_EPOCH + Duration::from_secs(946_684_800);
    golden.check("system_time", "2000", y2k);
}

/// The lines of the file, and which of them have been used.
struct Golden {
    lines: Vec<Line>,
}

struct Line {
    ty: &'static str,
    value: &'static str,
    bytes: &'static [u8],
    used: bool,
}

impl Golden {
    fn read() -> Self {
        let lines = GOLDEN.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        Self { lines: lines.map(Line::read).collect() }
    }

    fn check<T>(&mut self, ty: &str, value_in_words: &str, value: T)
    where
        T: Encode + Decode<'static> + PartialEq + Debug,
    {
        let bytes = self.bytes(ty, value_in_words);
        assert_eq!(to_vec(&value).unwrap(), bytes, "encoding {ty}: {value_in_words}");
        assert_eq!(from_slice::<T>(bytes).as_ref(), Ok(&value), "decoding {ty}: {value_in_words}");
        if let Some(size) = T::FIXED_SIZE {
            assert_eq!(bytes.len(), size, "fixed size of {ty}");
        }
        assert!(bytes.len() >= T::MIN_SIZE, "least size of {ty}");
        for end in 0..bytes.len() {
            assert!(from_slice::<T>(&bytes[..end]).is_err(), "{ty}: {value_in_words} without its end");
        }
    }

    fn check_varint<T: Varint + Copy + PartialEq + Debug>(
        &mut self,
        ty: &str,
        value_in_words: &str,
        value: T,
    ) {
        let mut out = Vec::new();
        Writer::new(&mut out, usize::MAX).put_varint(value.to_wire());
        assert_eq!(ty, format!("varint<{}>", T::NAME));
        assert_eq!(out, self.bytes(ty, value_in_words), "encoding {ty}: {value_in_words}");
        assert_eq!(T::from_wire(value.to_wire()), Some(value));
    }

    fn bytes(&mut self, ty: &str, value: &str) -> &'static [u8] {
        let line = self.lines.iter_mut().find(|line| line.ty == ty && line.value == value);
        let line = line.unwrap_or_else(|| panic!("no golden line for {ty}: {value}"));
        line.used = true;
        line.bytes
    }

    fn finish(self) {
        for line in self.lines {
            assert!(line.used, "nothing checks the golden line for {}: {}", line.ty, line.value);
        }
    }
}

impl Line {
    fn read(line: &'static str) -> Self {
        let [ty, value, hex] = line.split('|').map(str::trim).collect::<Vec<_>>()[..] else {
            panic!("not `type | value | hex`: {line}");
        };
        let digits: String = hex.split_whitespace().collect();
        let byte = |i| u8::from_str_radix(&digits[i..i + 2], 16).unwrap();
        let bytes = (0..digits.len()).step_by(2).map(byte).collect::<Vec<_>>().leak();
        Self { ty, value, bytes, used: false }
    }
}
