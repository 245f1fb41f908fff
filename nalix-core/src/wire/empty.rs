//! Types that take no bytes: they say nothing beyond their presence.

use std::{convert::Infallible, marker::PhantomData};

use super::{Decode, Encode, Reader, Writer};
use crate::error::{DecodeError, DecodeErrorKind};

impl Encode for () {
    const FIXED_SIZE: Option<usize> = Some(0);

    #[inline]
    fn encode(&self, _: &mut Writer<'_>) {}
}

impl<'de> Decode<'de> for () {
    #[inline]
    fn decode(_: &mut Reader<'de>) -> Result<Self, DecodeError> {
        Ok(())
    }
}

impl<T: ?Sized> Encode for PhantomData<T> {
    const FIXED_SIZE: Option<usize> = Some(0);

    #[inline]
    fn encode(&self, _: &mut Writer<'_>) {}
}

impl<'de, T: ?Sized> Decode<'de> for PhantomData<T> {
    #[inline]
    fn decode(_: &mut Reader<'de>) -> Result<Self, DecodeError> {
        Ok(PhantomData)
    }
}

/// An enum without variants: there is nothing to write, and whatever is read is unknown.
impl Encode for Infallible {
    fn encode(&self, _: &mut Writer<'_>) {
        match *self {}
    }
}

impl<'de> Decode<'de> for Infallible {
    fn decode(_: &mut Reader<'de>) -> Result<Self, DecodeError> {
        Err(DecodeErrorKind::UnknownVariant { found: 0 }.into())
    }
}
