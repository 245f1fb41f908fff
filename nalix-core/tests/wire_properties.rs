//! Round trips, and decoding of anything at all.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque},
    fmt::Debug,
    net::{IpAddr, SocketAddr},
    num::NonZero,
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use bytes::Bytes;
use nalix_core::wire::{DecodeOwned, Encode, Limits, Reader, Writer, from_slice, to_vec};
use proptest::{
    collection::{btree_map, btree_set, hash_map, hash_set, vec, vec_deque},
    prelude::*,
    sample::Index,
};

/// Whether one value has one form only. Hash tables have as many as there are orders.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    Canonical,
    AnyOrder,
}

/// A value comes back as it went, nothing less than all of its bytes decodes, and changed bytes do not panic.
fn holds<T>(value: &T, damage: &[(Index, u8)], form: Form) -> Result<(), TestCaseError>
where
    T: Encode + DecodeOwned + PartialEq + Debug,
{
    let bytes = to_vec(value).unwrap();
    let back = from_slice::<T>(&bytes);
    prop_assert_eq!(back.as_ref(), Ok(value));
    prop_assert!(bytes.len() >= T::MIN_SIZE);
    if let Some(size) = T::FIXED_SIZE {
        prop_assert_eq!(bytes.len(), size);
        prop_assert_eq!(value.size_hint(), size);
    }
    if let Some(last) = bytes.len().checked_sub(1) {
        prop_assert!(from_slice::<T>(&bytes[..last]).is_err(), "the last byte is not needed");
        let mut out = Vec::new();
        let mut w = Writer::new(&mut out, last);
        value.encode(&mut w);
        prop_assert!(w.finish().is_err());
        prop_assert!(out.is_empty(), "a message that is too large leaves bytes behind");

        let mut damaged = bytes.clone();
        for (at, byte) in damage {
            damaged[at.index(bytes.len())] = *byte;
        }
        survives::<T>(&damaged, form)?;
    }
    let shared = Bytes::from(bytes);
    let back = T::decode(&mut Reader::from_bytes(&shared, &Limits::default()));
    prop_assert_eq!(back.as_ref(), Ok(value));
    Ok(())
}

/// Any bytes decode to a value or an error; a value has these bytes and no others.
fn survives<T: Encode + DecodeOwned>(bytes: &[u8], form: Form) -> Result<(), TestCaseError> {
    if let Ok(value) = from_slice::<T>(bytes) {
        let again = to_vec(&value).unwrap();
        match form {
            Form::Canonical => prop_assert_eq!(again, bytes),
            Form::AnyOrder => prop_assert_eq!(again.len(), bytes.len()),
        }
    }
    Ok(())
}

fn damage() -> impl Strategy<Value = Vec<(Index, u8)>> {
    vec(any::<(Index, u8)>(), 1..4)
}

macro_rules! holds {
    ($($name:ident: $strategy:expr, $form:ident;)*) => {
        proptest! {
            $(
                #[test]
                fn $name(value in $strategy, damage in damage()) {
                    holds(&value, &damage, Form::$form)?;
                }
            )*
        }
    };
}

holds! {
    integers: any::<(u8, u16, u32, u64, u128, i8, i16, i32, i64, i128)>(), Canonical;
    flags_and_chars: any::<(bool, char, Option<bool>, [char; 3], [bool; 2])>(), Canonical;
    non_zero: any::<(NonZero<u8>, NonZero<u64>, NonZero<i32>, NonZero<i128>)>(), Canonical;
    texts: any::<(String, Box<str>, Vec<String>, [String; 2], Option<String>)>(), Canonical;
    shared_texts: any::<String>().prop_map(Arc::<str>::from), Canonical;
    numbers: any::<(Vec<u8>, Vec<i16>, Vec<u64>, Box<[u32]>, [i32; 5])>(), Canonical;
    byte_buffers: any::<Vec<u8>>().prop_map(Bytes::from), Canonical;
    shared_slices: any::<Vec<String>>().prop_map(Arc::<[String]>::from), Canonical;
    deques: vec_deque(any::<i16>(), 0..50), Canonical;
    turned_deques: (vec_deque(any::<u32>(), 1..50), any::<Index>()).prop_map(turn), Canonical;
    nested: vec(vec(any::<Option<Box<u16>>>(), 0..5), 0..20), Canonical;
    empties: any::<((), Vec<()>, [(); 3])>(), Canonical;
    results: any::<(Result<u8, String>, Result<(), ()>)>(), Canonical;
    tree_maps: btree_map(any::<u16>(), any::<String>(), 0..30), AnyOrder;
    tree_sets: btree_set(any::<String>(), 0..30), AnyOrder;
    hash_maps: hash_map(any::<String>(), any::<u64>(), 0..30), AnyOrder;
    hash_sets: hash_set(any::<i32>(), 0..30), AnyOrder;
    addresses: any::<(IpAddr, SocketAddr)>(), Canonical;
    durations: (any::<u64>(), 0..1_000_000_000u32).prop_map(|(s, n)| Duration::new(s, n)), Canonical;
    moments: (any::<u32>(), 0..1_000_000_000u32, any::<bool>()).prop_map(|(secs, nanos, before)| {
        let distance = Duration::new(secs.into(), nanos);
        if before { UNIX_EPOCH - distance } else { UNIX_EPOCH + distance }
    }), Canonical;
}

/// A deque whose items wrap around the end of its buffer.
fn turn((mut deque, by): (VecDeque<u32>, Index)) -> VecDeque<u32> {
    for _ in 0..by.index(deque.len()) {
        if let Some(item) = deque.pop_front() {
            deque.push_back(item);
        }
    }
    deque
}

proptest! {
    #[test]
    fn floats_keep_their_bits(values in any::<Vec<u64>>()) {
        let floats: Vec<f64> = values.iter().copied().map(f64::from_bits).collect();
        let bytes = to_vec(&floats).unwrap();
        prop_assert_eq!(&bytes, &to_vec(&values).unwrap());
        let back: Vec<f64> = from_slice(&bytes).unwrap();
        prop_assert_eq!(back.into_iter().map(f64::to_bits).collect::<Vec<_>>(), values);
    }

    #[test]
    fn anything_at_all(bytes in vec(prop_oneof![any::<u8>(), 0..4u8], 0..80)) {
        survives::<(bool, char, NonZero<u8>, Option<u16>)>(&bytes, Form::Canonical)?;
        survives::<(String, Vec<Option<String>>)>(&bytes, Form::Canonical)?;
        survives::<Vec<Vec<u32>>>(&bytes, Form::Canonical)?;
        survives::<Vec<Vec<()>>>(&bytes, Form::Canonical)?;
        survives::<VecDeque<Result<u8, [u16; 3]>>>(&bytes, Form::Canonical)?;
        survives::<Arc<[Box<(u8, f32)>]>>(&bytes, Form::Canonical)?;
        survives::<(SocketAddr, IpAddr)>(&bytes, Form::Canonical)?;
        survives::<Vec<(Duration, std::time::SystemTime)>>(&bytes, Form::Canonical)?;
        survives::<BTreeMap<u8, BTreeSet<i8>>>(&bytes, Form::AnyOrder)?;
        survives::<HashMap<String, HashSet<u8>>>(&bytes, Form::AnyOrder)?;
        survives::<Bytes>(&bytes, Form::Canonical)?;
        survives::<nalix_core::schema::Contract>(&bytes, Form::Canonical)?;
    }
}
