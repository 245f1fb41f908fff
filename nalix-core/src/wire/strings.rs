//! Strings: a length in bytes, then UTF-8.

use std::sync::Arc;

use super::{Decode, Encode, Reader, Writer, pointers::ARC_HEADER, varint};
use crate::error::{DecodeError, DecodeErrorKind};

impl Encode for str {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.put_len(self.len());
        w.put(self.as_bytes());
    }

    #[inline]
    fn size_hint(&self) -> usize {
        varint::len(self.len() as u64) + self.len()
    }
}

/// Whatever holds a `str` travels as one.
macro_rules! as_str {
    ($($t:ty)*) => {$(
        impl Encode for $t {
            #[inline]
            fn encode(&self, w: &mut Writer<'_>) {
                str::encode(self, w);
            }

            #[inline]
            fn size_hint(&self) -> usize {
                str::size_hint(self)
            }
        }
    )*};
}

as_str!(&str String Box<str> Arc<str>);

impl<'de: 'a, 'a> Decode<'de> for &'a str {
    const MIN_SIZE: usize = 1;

    #[inline]
    fn decode(r: &mut Reader<'de>) -> Result<Self, DecodeError> {
        let len = r.len()?;
        std::str::from_utf8(r.bytes(len)?).map_err(|_| DecodeErrorKind::NotUtf8.into())
    }
}

impl<'de> Decode<'de> for String {
    const MIN_SIZE: usize = 1;

    #[inline]
    fn decode(r: &mut Reader<'de>) -> Result<Self, DecodeError> {
        let text = <&str>::decode(r)?;
        r.charge(text.len(), 1)?;
        Ok(text.to_owned())
    }
}

impl<'de> Decode<'de> for Box<str> {
    const MIN_SIZE: usize = 1;

    #[inline]
    fn decode(r: &mut Reader<'de>) -> Result<Self, DecodeError> {
        String::decode(r).map(String::into_boxed_str)
    }
}

impl<'de> Decode<'de> for Arc<str> {
    const MIN_SIZE: usize = 1;

    #[inline]
    fn decode(r: &mut Reader<'de>) -> Result<Self, DecodeError> {
        let text = <&str>::decode(r)?;
        r.charge(1, text.len() + ARC_HEADER)?;
        Ok(text.into())
    }
}
