//! Numbers, `bool`, `char`, and numbers that are never zero.

use std::num::NonZero;

use super::{Decode, Encode, Reader, Writer};
use crate::error::{DecodeError, DecodeErrorKind};

/// Numbers travel little-endian in their natural width; slices of them in one copy.
macro_rules! number {
    ($($t:ty)*) => {$(
        impl Encode for $t {
            const FIXED_SIZE: Option<usize> = Some(size_of::<$t>());

            #[inline]
            fn encode(&self, w: &mut Writer<'_>) {
                w.put(&self.to_le_bytes());
            }

            #[cfg(target_endian = "little")]
            #[inline]
            fn encode_slice(items: &[Self], w: &mut Writer<'_>) {
                w.put(bytemuck::cast_slice(items));
            }
        }

        impl<'de> Decode<'de> for $t {
            const MIN_SIZE: usize = size_of::<$t>();

            #[inline]
            fn decode(r: &mut Reader<'de>) -> Result<Self, DecodeError> {
                r.array().map(Self::from_le_bytes)
            }

            // The loops below compile to copies on little-endian machines, without zeroing the memory first.
            fn decode_vec(r: &mut Reader<'de>, count: usize) -> Result<Vec<Self>, DecodeError> {
                let bytes = r.bytes(count.saturating_mul(size_of::<Self>()))?;
                r.charge(count, size_of::<Self>())?;
                let (items, _) = bytes.as_chunks();
                Ok(items.iter().map(|item| Self::from_le_bytes(*item)).collect())
            }

            fn decode_array<const N: usize>(r: &mut Reader<'de>) -> Result<[Self; N], DecodeError> {
                let bytes = r.bytes(N.saturating_mul(size_of::<Self>()))?;
                let (items, _) = bytes.as_chunks();
                let mut out = [<$t>::default(); N];
                for (slot, item) in out.iter_mut().zip(items) {
                    *slot = Self::from_le_bytes(*item);
                }
                Ok(out)
            }
        }
    )*};
}

number!(u8 u16 u32 u64 u128 i8 i16 i32 i64 i128 f32 f64);

impl Encode for bool {
    const FIXED_SIZE: Option<usize> = Some(1);

    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        w.put_u8(u8::from(*self));
    }
}

impl<'de> Decode<'de> for bool {
    const MIN_SIZE: usize = 1;

    #[inline]
    fn decode(r: &mut Reader<'de>) -> Result<Self, DecodeError> {
        r.flag()
    }
}

impl Encode for char {
    const FIXED_SIZE: Option<usize> = Some(4);

    #[inline]
    fn encode(&self, w: &mut Writer<'_>) {
        u32::from(*self).encode(w);
    }
}

impl<'de> Decode<'de> for char {
    const MIN_SIZE: usize = 4;

    #[inline]
    fn decode(r: &mut Reader<'de>) -> Result<Self, DecodeError> {
        char::from_u32(u32::decode(r)?).ok_or(DecodeErrorKind::BadChar.into())
    }
}

/// As the number itself, zero refused.
macro_rules! non_zero {
    ($($t:ty)*) => {$(
        impl Encode for NonZero<$t> {
            const FIXED_SIZE: Option<usize> = <$t>::FIXED_SIZE;

            #[inline]
            fn encode(&self, w: &mut Writer<'_>) {
                self.get().encode(w);
            }
        }

        impl<'de> Decode<'de> for NonZero<$t> {
            const MIN_SIZE: usize = <$t>::MIN_SIZE;

            #[inline]
            fn decode(r: &mut Reader<'de>) -> Result<Self, DecodeError> {
                let expected = concat!("NonZero<", stringify!($t), ">");
                NonZero::new(<$t>::decode(r)?).ok_or(DecodeErrorKind::OutOfRange { expected }.into())
            }
        }
    )*};
}

non_zero!(u8 u16 u32 u64 u128 i8 i16 i32 i64 i128);
