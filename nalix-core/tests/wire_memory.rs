//! What hostile lengths cost: never more memory than the limits grant to an input of that size.
//!
//! One test in a program of its own, since the allocator counts for all threads.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    any::type_name,
    collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque},
    sync::Arc,
};

use bytes::Bytes;
use nalix_core::{
    error::DecodeErrorKind,
    schema::Contract,
    wire::{Decode, DecodeOwned, Limits, Reader, varint},
};
use peak_alloc::PeakAlloc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// What errors and the test itself may take.
const SLACK: usize = 256;

#[test]
fn memory_stays_within_the_limits() {
    hostile_lengths::<Vec<u8>>();
    hostile_lengths::<Vec<u128>>();
    hostile_lengths::<Vec<bool>>();
    hostile_lengths::<Vec<String>>();
    hostile_lengths::<Vec<Vec<Vec<u64>>>>();
    hostile_lengths::<Vec<()>>();
    hostile_lengths::<Vec<Box<()>>>();
    hostile_lengths::<Vec<Vec<()>>>();
    hostile_lengths::<Vec<[u16; 0]>>();
    hostile_lengths::<Vec<Option<Big>>>();
    hostile_lengths::<Vec<[Option<Big>; 3]>>();
    hostile_lengths::<Vec<Box<Option<Big>>>>();
    hostile_lengths::<Vec<Option<Box<Big>>>>();
    hostile_lengths::<VecDeque<u32>>();
    hostile_lengths::<Box<[u64]>>();
    hostile_lengths::<Arc<[Option<Big>]>>();
    hostile_lengths::<Arc<[u64]>>();
    hostile_lengths::<String>();
    hostile_lengths::<Box<str>>();
    hostile_lengths::<Arc<str>>();
    hostile_lengths::<Bytes>();
    hostile_lengths::<HashMap<u8, Big>>();
    hostile_lengths::<HashMap<u8, Option<Big>>>();
    hostile_lengths::<HashMap<u16, ()>>();
    hostile_lengths::<HashMap<(), ()>>();
    hostile_lengths::<HashMap<Box<u8>, Option<Big>>>();
    hostile_lengths::<HashSet<u8>>();
    hostile_lengths::<HashSet<Vec<()>>>();
    hostile_lengths::<BTreeMap<u8, Option<Big>>>();
    hostile_lengths::<BTreeMap<u16, u16>>();
    hostile_lengths::<BTreeSet<u32>>();
    hostile_lengths::<BTreeSet<()>>();
    hostile_lengths::<Vec<BTreeMap<u8, u8>>>();
    hostile_lengths::<Vec<HashMap<u8, Option<Big>>>>();
    hostile_lengths::<Result<Vec<u64>, String>>();
    hostile_lengths::<Contract>();
    honest_values_pass();
    absurd_limits_do_not_abort();
}

type Big = [u64; 100];

/// Decodes `T` from every length that an attacker would try, before nothing, a little, and much.
fn hostile_lengths<T: DecodeOwned>() {
    for behind in [0, 1, 7, 100, 10_000] {
        let lengths = [
            0,
            1,
            behind,
            behind + 1,
            behind * 2,
            0xffff,
            0x1_0001,
            1 << 31,
            u64::from(u32::MAX),
            1 << 40,
            u64::MAX / size_of::<T>() as u64 + 1,
            u64::MAX / 800 + 1,
            i64::MAX as u64,
            u64::MAX,
        ];
        for length in lengths {
            for filler in Filler::ALL {
                let mut input = Vec::new();
                put(length, &mut input);
                filler.fill(behind as usize, &mut input);
                stays_within::<T>(&input);
                // A flag or an outer count in front.
                input.insert(0, 1);
                stays_within::<T>(&input);
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Filler {
    Zeros,
    Ones,
    /// Every two bytes differ from all others: distinct keys.
    Counting,
    /// Three bytes that claim 65,536 items, again and again.
    Claims,
}

impl Filler {
    const ALL: [Filler; 4] = [Filler::Zeros, Filler::Ones, Filler::Counting, Filler::Claims];

    fn fill(self, len: usize, out: &mut Vec<u8>) {
        let end = out.len() + len;
        let mut n = 0u16;
        while out.len() < end {
            match self {
                Filler::Zeros => out.push(0),
                Filler::Ones => out.push(1),
                Filler::Counting => out.extend(n.to_be_bytes()),
                Filler::Claims => put(0x1_0000, out),
            }
            n = n.wrapping_add(1);
        }
        out.truncate(end);
    }
}

fn stays_within<T: for<'de> Decode<'de>>(input: &[u8]) {
    let limits = Limits::default();
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    let result = T::decode(&mut Reader::new(input, &limits));
    let used = MEMORY.peak_usage().saturating_sub(before);
    drop(result);
    let granted = input.len() * limits.memory_factor + limits.free_memory + SLACK;
    let head = &input[..input.len().min(16)];
    assert!(
        used <= granted,
        "{} takes {used} bytes from {} ({head:x?}...), granted are {granted}",
        type_name::<T>(),
        input.len(),
    );
}

/// The bounds are no hindrance to what programs really send.
fn honest_values_pass() {
    passes(&vec![String::new(); 10_000]);
    passes(&(0..10_000u32).map(|n| (n, n.to_string())).collect::<HashMap<_, _>>());
    passes(&(0..10_000u32).map(|n| (n, vec![n])).collect::<BTreeMap<_, _>>());
    passes(&(0..10_000u16).collect::<HashSet<_>>());
    passes(&vec![None::<String>; 10_000]);
    passes(&(0..100_000u32).map(Box::new).collect::<Vec<_>>());
    passes(&vec![(); 65_536]);
    passes(&(0..5_000u32).map(|n| BTreeMap::from([(n, n)])).collect::<Vec<_>>());
}

fn passes<T: nalix_core::wire::Encode + DecodeOwned>(value: &T) {
    let bytes = nalix_core::wire::to_vec(value).unwrap();
    if let Err(error) = nalix_core::wire::from_slice::<T>(&bytes) {
        panic!("{} of {} bytes: {error}", type_name::<T>(), bytes.len());
    }
    stays_within::<T>(&bytes);
}

/// Whoever lifts the limits gets errors, not an abort, for what no machine can hold.
fn absurd_limits_do_not_abort() {
    let mut limits = Limits::default();
    limits.max_empty_items = usize::MAX;
    limits.memory_factor = usize::MAX;
    limits.free_memory = usize::MAX;
    let mut input = Vec::new();
    put(1 << 60, &mut input);
    let refused = Err(DecodeErrorKind::TooMuchMemory);
    assert_eq!(kind::<Vec<Box<()>>>(&input, &limits), refused);
    assert_eq!(kind::<HashMap<Box<()>, ()>>(&input, &limits), refused);
    assert_eq!(kind::<HashSet<Box<()>>>(&input, &limits), refused);

    let mut none = Limits::default();
    (none.max_empty_items, none.memory_factor, none.free_memory, none.max_depth) = (0, 0, 0, 0);
    assert_eq!(kind::<u64>(&[0; 8], &none), Ok(()));
    assert_eq!(kind::<String>(&[0], &none), Ok(()));
    assert_eq!(kind::<String>(&[1, b'a'], &none), refused);
}

fn kind<T: DecodeOwned>(input: &[u8], limits: &Limits) -> Result<(), DecodeErrorKind> {
    T::decode(&mut Reader::new(input, limits)).map(drop).map_err(|error| error.kind)
}

fn put(value: u64, out: &mut Vec<u8>) {
    let mut buf = [0; varint::MAX_LEN];
    let len = varint::put(value, &mut buf);
    out.extend_from_slice(&buf[..len]);
}
