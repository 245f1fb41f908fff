//! Runs of raw bytes that need no copy. The layout is that of `Vec<u8>`.

use bytes::Bytes;

use super::{Decode, Encode, Reader, Writer};
use crate::error::DecodeError;

impl<'de: 'a, 'a> Decode<'de> for &'a [u8] {
    const MIN_SIZE: usize = 1;

    #[inline]
    fn decode(r: &mut Reader<'de>) -> Result<Self, DecodeError> {
        let len = r.len()?;
        r.nested(|r| r.bytes(len))
    }
}

impl Encode for Bytes {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        <[u8]>::encode(self, w);
    }

    #[inline]
    fn size_hint(&self) -> usize {
        <[u8]>::size_hint(self)
    }
}

/// A slice of the receive buffer where there is one, and keeps that buffer alive.
impl<'de> Decode<'de> for Bytes {
    const MIN_SIZE: usize = 1;

    #[inline]
    fn decode(r: &mut Reader<'de>) -> Result<Self, DecodeError> {
        let len = r.len()?;
        r.nested(|r| r.shared(len))
    }
}
