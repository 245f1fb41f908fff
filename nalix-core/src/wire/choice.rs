//! `Option` and `Result`: a flag, then the value that it announces.

use super::{Decode, Encode, Reader, Writer};
use crate::error::DecodeError;

impl<T: Encode> Encode for Option<T> {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.put_u8(u8::from(self.is_some()));
        if let Some(value) = self {
            value.encode(w);
        }
    }

    #[inline]
    fn size_hint(&self) -> usize {
        1 + self.as_ref().map_or(0, T::size_hint)
    }
}

impl<'de, T: Decode<'de>> Decode<'de> for Option<T> {
    const MIN_SIZE: usize = 1;

    #[inline]
    fn decode(r: &mut Reader<'de>) -> Result<Self, DecodeError> {
        r.flag()?.then(|| T::decode(r)).transpose()
    }
}

impl<T: Encode, E: Encode> Encode for Result<T, E> {
    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.put_u8(u8::from(self.is_err()));
        match self {
            Ok(value) => value.encode(w),
            Err(error) => error.encode(w),
        }
    }

    #[inline]
    fn size_hint(&self) -> usize {
        1 + match self {
            Ok(value) => value.size_hint(),
            Err(error) => error.size_hint(),
        }
    }
}

impl<'de, T: Decode<'de>, E: Decode<'de>> Decode<'de> for Result<T, E> {
    const MIN_SIZE: usize = 1 + if T::MIN_SIZE < E::MIN_SIZE { T::MIN_SIZE } else { E::MIN_SIZE };

    #[inline]
    fn decode(r: &mut Reader<'de>) -> Result<Self, DecodeError> {
        Ok(if r.flag()? { Err(E::decode(r)?) } else { Ok(T::decode(r)?) })
    }
}
