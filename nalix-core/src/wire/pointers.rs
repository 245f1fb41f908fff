//! `Box`, `Arc`, `Cow` and references travel as what they point at.
//!
//! A pointer is what makes a type recursive. So each takes one level of the nesting limit, and none takes its sizes
//! from its target: the constants of a recursive type would depend on themselves.

use std::{borrow::Cow, sync::Arc};

use super::{Decode, Encode, Reader, Writer};
use crate::error::DecodeError;

/// What an `Arc` keeps beside its value: two counts.
pub(super) const ARC_HEADER: usize = 2 * size_of::<usize>();

impl<T: Encode> Encode for &T {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.nested(|w| T::encode(self, w));
    }
}

impl<T: Encode> Encode for Box<T> {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.nested(|w| T::encode(self, w));
    }
}

impl<'de, T: Decode<'de>> Decode<'de> for Box<T> {
    #[inline]
    fn decode(r: &mut Reader<'de>) -> Result<Self, DecodeError> {
        r.charge(1, size_of::<T>())?;
        r.nested(T::decode).map(Box::new)
    }
}

impl<T: Encode> Encode for Arc<T> {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.nested(|w| T::encode(self, w));
    }
}

impl<'de, T: Decode<'de>> Decode<'de> for Arc<T> {
    #[inline]
    fn decode(r: &mut Reader<'de>) -> Result<Self, DecodeError> {
        r.charge(1, size_of::<T>() + ARC_HEADER)?;
        r.nested(T::decode).map(Arc::new)
    }
}

impl<B: Encode + ToOwned + ?Sized> Encode for Cow<'_, B> {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        B::encode(self, w);
    }

    #[inline]
    fn size_hint(&self) -> usize {
        B::size_hint(self)
    }
}

/// Always owned, so that a `Cow<'static, str>` may stand in a reply. To borrow from the input, use `&str` and `&[u8]`,
/// or mark the field with one of the modules in [`borrowed`](crate::borrowed).
impl<'de, B> Decode<'de> for Cow<'_, B>
where
    B: ToOwned<Owned: Decode<'de>> + ?Sized,
{
    const MIN_SIZE: usize = B::Owned::MIN_SIZE;

    #[inline]
    fn decode(r: &mut Reader<'de>) -> Result<Self, DecodeError> {
        B::Owned::decode(r).map(Cow::Owned)
    }
}
