//! Canonical LEB128 varints: seven bits a byte, lowest first, no byte more than needed.

use std::convert::identity;

use crate::error::{DecodeError, DecodeErrorKind};

/// The most bytes a `u64` takes.
pub const MAX_LEN: usize = 10;

/// How many bytes `value` takes.
#[inline]
pub const fn len(value: u64) -> usize {
    // 1 for 0..=6 significant bits, and so on by sevens.
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Writes `value` at the front of `out` and returns how many bytes that took.
///
/// # Panics
/// If `out` is shorter than [`len`] of the value.
#[inline]
pub fn put(mut value: u64, out: &mut [u8]) -> usize {
    let mut n = 0;
    while value >= 0x80 {
        out[n] = (value as u8) | 0x80;
        value >>= 7;
        n += 1;
    }
    out[n] = value as u8;
    n + 1
}

/// The bytes of a value below [`SHORT`], the first in the lowest bits, and how many they are: for those who put several
/// things together and write them at once.
#[inline]
pub(crate) const fn short(value: u64) -> (u64, usize) {
    debug_assert!(value < SHORT);
    let n = len(value);
    let spread = (value & 0x7f)
        | (value & 0x7f << 7) << 1
        | (value & 0x7f << 14) << 2
        | (value & 0x7f << 21) << 3
        | (value & 0x7f << 28) << 4;
    // All bytes but the last say that one more follows.
    let more = 0x80_8080_8080 & ((1 << (8 * (n - 1))) - 1);
    (spread | more, n)
}

/// Values from here on take more than five bytes.
pub(crate) const SHORT: u64 = 1 << 35;

/// Takes a varint off the front of `input`.
///
/// # Errors
/// [`DecodeErrorKind::BadVarint`] if it is not canonical or above `u64::MAX`, [`DecodeErrorKind::Truncated`] if it is
/// incomplete.
#[inline]
pub fn split(input: &[u8]) -> Result<(u64, &[u8]), DecodeError> {
    match input {
        // Most are short.
        [byte, rest @ ..] if *byte < 0x80 => Ok((u64::from(*byte), rest)),
        _ => split_long(input),
    }
}

fn split_long(input: &[u8]) -> Result<(u64, &[u8]), DecodeError> {
    let mut value = 0u64;
    for (i, &byte) in input.iter().enumerate().take(MAX_LEN) {
        let bits = u64::from(byte & 0x7f);
        // The tenth byte has room for one bit only.
        if i == MAX_LEN - 1 && bits > 1 {
            return Err(DecodeErrorKind::BadVarint.into());
        }
        value |= bits << (7 * i);
        if byte < 0x80 {
            // A last byte of zero adds nothing: the same value has a shorter form.
            if byte == 0 && i > 0 {
                return Err(DecodeErrorKind::BadVarint.into());
            }
            return Ok((value, &input[i + 1..]));
        }
    }
    Err(if input.len() < MAX_LEN {
        DecodeErrorKind::Truncated { missing: 1 }.into()
    } else {
        DecodeErrorKind::BadVarint.into()
    })
}

/// Folds a signed number so that small magnitudes become small varints: 0, -1, 1, -2 become 0, 1, 2, 3.
pub const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// Undoes [`zigzag`].
pub const fn unzigzag(value: u64) -> i64 {
    ((value >> 1) as i64) ^ -((value & 1) as i64)
}

/// An integer that may travel as a varint (the attribute `varint`): unsigned ones as they are, signed ones by
/// [`zigzag`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot travel as a varint",
    label = "not an integer of 16, 32 or 64 bits",
    note = "`#[wire(varint)]` goes with `u16`, `u32`, `u64`, `i16`, `i32` and `i64`"
)]
pub trait Varint: sealed::Sealed + Sized {
    /// The name of the Rust type.
    const NAME: &'static str;

    /// The number on the wire.
    fn to_wire(self) -> u64;

    /// The value of a number on the wire; `None` if it is out of range.
    fn from_wire(value: u64) -> Option<Self>;
}

macro_rules! varint {
    ($($t:ident $wide:ident $fold:path, $unfold:path;)*) => {$(
        impl sealed::Sealed for $t {}

        impl Varint for $t {
            const NAME: &'static str = stringify!($t);

            #[inline]
            fn to_wire(self) -> u64 {
                $fold($wide::from(self))
            }

            #[inline]
            fn from_wire(value: u64) -> Option<Self> {
                $t::try_from($unfold(value)).ok()
            }
        }
    )*};
}

varint! {
    u16 u64 identity, identity;
    u32 u64 identity, identity;
    u64 u64 identity, identity;
    i16 i64 zigzag, unzigzag;
    i32 i64 zigzag, unzigzag;
    i64 i64 zigzag, unzigzag;
}

mod sealed {
    pub trait Sealed {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_at_every_length() {
        for shift in 0..64 {
            for value in [1u64 << shift, (1u64 << shift) - 1, u64::MAX >> shift] {
                let mut buf = [0; MAX_LEN];
                let n = put(value, &mut buf);
                assert_eq!(n, len(value), "{value}");
                assert_eq!(split(&buf[..n]), Ok((value, &[][..])));
                assert_eq!(unzigzag(zigzag(value as i64)), value as i64);
                if value < SHORT {
                    let (bits, len) = short(value);
                    assert_eq!(bits.to_le_bytes()[..len], buf[..n], "{value}");
                }
            }
        }
    }

    #[test]
    fn typed_varints_keep_to_their_range() {
        assert_eq!(u16::from_wire(u16::MAX.to_wire()), Some(u16::MAX));
        assert_eq!(u16::from_wire(0x1_0000), None);
        assert_eq!(i16::from_wire(i16::MIN.to_wire()), Some(i16::MIN));
        assert_eq!(i16::from_wire(0xffff), Some(i16::MIN));
        assert_eq!(i16::from_wire(0x1_0000), None);
        assert_eq!(i64::from_wire(i64::MIN.to_wire()), Some(i64::MIN));
        assert_eq!((-1i32).to_wire(), 1);
    }

    #[test]
    fn refuses_longer_forms_of_short_values() {
        for bad in [&[0x80, 0x00][..], &[0xff, 0x80, 0x00], &[0x81, 0x80, 0x80, 0x00]] {
            assert_eq!(split(bad).unwrap_err().kind, DecodeErrorKind::BadVarint, "{bad:?}");
        }
    }

    #[test]
    fn refuses_more_than_64_bits() {
        let mut ten = [0xff; 10];
        ten[9] = 0x01;
        assert_eq!(split(&ten), Ok((u64::MAX, &[][..])));
        ten[9] = 0x02;
        assert_eq!(split(&ten).unwrap_err().kind, DecodeErrorKind::BadVarint);
        assert_eq!(split(&[0xff; 11]).unwrap_err().kind, DecodeErrorKind::BadVarint);
        assert_eq!(split(&[0xff; 9]).unwrap_err().kind, DecodeErrorKind::Truncated { missing: 1 });
    }
}
