//! The length that `#[wire(max_len = N)]` bounds.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque},
    sync::Arc,
};

use bytes::Bytes;

/// A value with a length: bytes of a string or byte slice, items of a collection.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no length for `max_len` to bound",
    label = "not a string, byte slice or collection",
    note = "`max_len` goes with strings, bytes, vectors, maps and sets, and with an `Option` of them"
)]
pub trait Len {
    /// The length as it is written in front of the value; 0 for `None`.
    fn wire_len(&self) -> usize;
}

macro_rules! len {
    ($([$($g:tt)*] $t:ty;)*) => {$(
        impl<$($g)*> Len for $t {
            #[inline]
            fn wire_len(&self) -> usize {
                self.len()
            }
        }
    )*};
}

len! {
    [] str;
    [] String;
    [] Bytes;
    [T] [T];
    [T] Vec<T>;
    [T] VecDeque<T>;
    [T, S] HashSet<T, S>;
    [T] BTreeSet<T>;
    [K, V, S] HashMap<K, V, S>;
    [K, V] BTreeMap<K, V>;
}

macro_rules! len_of_target {
    ($([$($g:tt)*] $t:ty;)*) => {$(
        impl<$($g)*> Len for $t {
            #[inline]
            fn wire_len(&self) -> usize {
                T::wire_len(self)
            }
        }
    )*};
}

len_of_target! {
    [T: Len + ?Sized] &T;
    [T: Len + ?Sized] Box<T>;
    [T: Len + ?Sized] Arc<T>;
    [T: Len + ToOwned + ?Sized] Cow<'_, T>;
}

impl<T: Len> Len for Option<T> {
    #[inline]
    fn wire_len(&self) -> usize {
        self.as_ref().map_or(0, T::wire_len)
    }
}
