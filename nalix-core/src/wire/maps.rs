//! Maps and sets: a count, then the entries. A key that comes twice is an error, since the two sides could not agree on
//! which of the two counts.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    hash::{BuildHasher, Hash},
};

use super::{
    Decode, Encode, Reader, Writer,
    collections::{COUNT_HINT, items_hint},
};
use crate::error::{DecodeError, DecodeErrorKind};

/// Entries in the map's own order.
macro_rules! encode_map {
    ($t:ty, $($s:ident)?) => {
        impl<K: Encode, V: Encode $(, $s)?> Encode for $t {
            fn encode(&self, w: &mut Writer<'_>) {
                w.put_len(self.len());
                w.nested(|w| {
                    for (key, value) in self {
                        key.encode(w);
                        value.encode(w);
                    }
                });
            }

            fn size_hint(&self) -> usize {
                COUNT_HINT + items_hint::<(K, V)>(self.len())
            }
        }
    };
}

encode_map!(HashMap<K, V, S>, S);
encode_map!(BTreeMap<K, V>,);

macro_rules! encode_set {
    ($t:ty, $($s:ident)?) => {
        impl<T: Encode $(, $s)?> Encode for $t {
            fn encode(&self, w: &mut Writer<'_>) {
                w.put_len(self.len());
                w.nested(|w| {
                    for item in self {
                        item.encode(w);
                    }
                });
            }

            fn size_hint(&self) -> usize {
                COUNT_HINT + items_hint::<T>(self.len())
            }
        }
    };
}

encode_set!(HashSet<T, S>, S);
encode_set!(BTreeSet<T>,);

impl<'de, K, V, S> Decode<'de> for HashMap<K, V, S>
where
    K: Decode<'de> + Eq + Hash,
    V: Decode<'de>,
    S: BuildHasher + Default,
{
    const MIN_SIZE: usize = 1;

    fn decode(r: &mut Reader<'de>) -> Result<Self, DecodeError> {
        let count = r.count::<(K, V)>()?;
        charge_table::<(K, V)>(r, count)?;
        let mut out = HashMap::with_hasher(S::default());
        out.try_reserve(count).map_err(|_| DecodeErrorKind::TooMuchMemory)?;
        entries(r, count, |key, value| out.insert(key, value).is_none())?;
        Ok(out)
    }
}

impl<'de, K: Decode<'de> + Ord, V: Decode<'de>> Decode<'de> for BTreeMap<K, V> {
    const MIN_SIZE: usize = 1;

    fn decode(r: &mut Reader<'de>) -> Result<Self, DecodeError> {
        let count = r.count::<(K, V)>()?;
        charge_tree(r, count, size_of::<K>() + size_of::<V>())?;
        let mut out = BTreeMap::new();
        entries(r, count, |key, value| out.insert(key, value).is_none())?;
        Ok(out)
    }
}

impl<'de, T: Decode<'de> + Eq + Hash, S: BuildHasher + Default> Decode<'de> for HashSet<T, S> {
    const MIN_SIZE: usize = 1;

    fn decode(r: &mut Reader<'de>) -> Result<Self, DecodeError> {
        let count = r.count::<T>()?;
        charge_table::<T>(r, count)?;
        let mut out = HashSet::with_hasher(S::default());
        out.try_reserve(count).map_err(|_| DecodeErrorKind::TooMuchMemory)?;
        entries(r, count, |item, ()| out.insert(item))?;
        Ok(out)
    }
}

impl<'de, T: Decode<'de> + Ord> Decode<'de> for BTreeSet<T> {
    const MIN_SIZE: usize = 1;

    fn decode(r: &mut Reader<'de>) -> Result<Self, DecodeError> {
        let count = r.count::<T>()?;
        charge_tree(r, count, size_of::<T>())?;
        let mut out = BTreeSet::new();
        entries(r, count, |item, ()| out.insert(item))?;
        Ok(out)
    }
}

/// Reads `count` entries. `insert` says whether the key is new.
fn entries<'de, K: Decode<'de>, V: Decode<'de>>(
    r: &mut Reader<'de>,
    count: usize,
    mut insert: impl FnMut(K, V) -> bool,
) -> Result<(), DecodeError> {
    r.nested(|r| {
        for _ in 0..count {
            if !insert(K::decode(r)?, V::decode(r)?) {
                return Err(DecodeErrorKind::DuplicateKey.into());
            }
        }
        Ok(())
    })
}

/// Charges a hash table: a power of two of slots, four or more, at most seven in eight of them full, and a byte of control
/// for each.
fn charge_table<T>(r: &mut Reader<'_>, count: usize) -> Result<(), DecodeError> {
    if count == 0 {
        return Ok(());
    }
    let least = (count.saturating_mul(8) / 7 + 1).max(4);
    let slots = least.checked_next_power_of_two().unwrap_or(usize::MAX);
    r.charge(slots, size_of::<T>() + 1)?;
    r.charge(1, TABLE_PADDING)
}

/// Charges a B-tree: nodes with room for eleven entries, of which all but the root hold five or more.
fn charge_tree(r: &mut Reader<'_>, count: usize, entry: usize) -> Result<(), DecodeError> {
    let node = entry.saturating_mul(NODE_ENTRIES) + NODE_HEADER;
    match count {
        0 => Ok(()),
        1..=NODE_ENTRIES => r.charge(1, node),
        // Inner nodes have links as well: one to each node but the root, and room for twice as many.
        _ => r.charge(count / 5 + 1, node + 4 * size_of::<usize>()),
    }
}

/// Control bytes that a table has beyond one a slot, its alignment, and the further slots it has while they are small.
const TABLE_PADDING: usize = 48;

const NODE_ENTRIES: usize = 11;

/// A link to the parent, two small numbers, and alignment.
const NODE_HEADER: usize = 32;
