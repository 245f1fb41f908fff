//! Items in a row: vectors, deques, slices, arrays.
//!
//! All but arrays put a count in front. Each takes one level of the nesting limit, since a recursive type may go
//! through any of them; arrays do not, since an array cannot hold its own type.

use std::{collections::VecDeque, sync::Arc};

use super::{Decode, Encode, Reader, Writer, pointers::ARC_HEADER};
use crate::error::DecodeError;

impl<T: Encode> Encode for [T] {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.put_len(self.len());
        w.reserve(items_hint::<T>(self.len()));
        w.nested(|w| T::encode_slice(self, w));
    }

    #[inline]
    fn size_hint(&self) -> usize {
        COUNT_HINT + items_hint::<T>(self.len())
    }
}

/// Whatever holds a slice travels as one.
macro_rules! as_slice {
    ($($t:ty)*) => {$(
        impl<T: Encode> Encode for $t {
            #[inline]
            fn encode(&self, w: &mut Writer<'_>) {
                <[T]>::encode(self, w);
            }

            #[inline]
            fn size_hint(&self) -> usize {
                <[T]>::size_hint(self)
            }
        }
    )*};
}

as_slice!(&[T] Vec<T> Box<[T]> Arc<[T]>);

impl<'de, T: Decode<'de>> Decode<'de> for Vec<T> {
    const MIN_SIZE: usize = 1;

    #[inline]
    fn decode(r: &mut Reader<'de>) -> Result<Self, DecodeError> {
        let count = r.count::<T>()?;
        r.nested(|r| T::decode_vec(r, count))
    }
}

impl<'de, T: Decode<'de>> Decode<'de> for Box<[T]> {
    const MIN_SIZE: usize = 1;

    #[inline]
    fn decode(r: &mut Reader<'de>) -> Result<Self, DecodeError> {
        Vec::decode(r).map(Vec::into_boxed_slice)
    }
}

impl<'de, T: Decode<'de>> Decode<'de> for Arc<[T]> {
    const MIN_SIZE: usize = 1;

    #[inline]
    fn decode(r: &mut Reader<'de>) -> Result<Self, DecodeError> {
        let items = Vec::<T>::decode(r)?;
        // The items move into a second allocation, for a moment beside the first.
        r.charge(1, size_of_val(&*items) + ARC_HEADER)?;
        Ok(items.into())
    }
}

impl<T: Encode> Encode for VecDeque<T> {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        let (front, back) = self.as_slices();
        w.put_len(self.len());
        w.reserve(items_hint::<T>(self.len()));
        w.nested(|w| {
            T::encode_slice(front, w);
            T::encode_slice(back, w);
        });
    }

    #[inline]
    fn size_hint(&self) -> usize {
        COUNT_HINT + items_hint::<T>(self.len())
    }
}

impl<'de, T: Decode<'de>> Decode<'de> for VecDeque<T> {
    const MIN_SIZE: usize = 1;

    #[inline]
    fn decode(r: &mut Reader<'de>) -> Result<Self, DecodeError> {
        Vec::decode(r).map(VecDeque::from)
    }
}

impl<T: Encode, const N: usize> Encode for [T; N] {
    const FIXED_SIZE: Option<usize> = match T::FIXED_SIZE {
        Some(size) => size.checked_mul(N),
        None => None,
    };

    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        T::encode_slice(self, w);
    }

    #[inline]
    fn size_hint(&self) -> usize {
        items_hint::<T>(N)
    }
}

impl<'de, T: Decode<'de>, const N: usize> Decode<'de> for [T; N] {
    const MIN_SIZE: usize = T::MIN_SIZE.saturating_mul(N);

    #[inline]
    fn decode(r: &mut Reader<'de>) -> Result<Self, DecodeError> {
        T::decode_array(r)
    }
}

/// How many bytes `count` items may take. Items are not asked one by one: that would cost a walk over the whole value,
/// of a depth that nothing bounds yet.
pub(super) fn items_hint<T: Encode>(count: usize) -> usize {
    count.saturating_mul(T::FIXED_SIZE.unwrap_or(ITEM_HINT))
}

/// What a count takes, up to four thousand million.
pub(super) const COUNT_HINT: usize = 5;

/// What an item of no fixed size may take.
const ITEM_HINT: usize = 16;
