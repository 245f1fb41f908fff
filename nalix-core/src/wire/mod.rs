//! The value codec: how a Rust value becomes bytes and comes back.
//!
//! Everything is little-endian. Numbers have their natural width unless marked `varint`; lengths, counts and variant
//! numbers are canonical LEB128 varints. `docs/protocol.md` gives the layout of every type.
//!
//! A decoder trusts nothing: a count is checked against the bytes that are left before anything is reserved, memory
//! is charged against a budget derived from the input's size, nesting is bounded, and a value consumes exactly what
//! it is made of. See [`Limits`].

mod bytes;
mod choice;
mod collections;
mod empty;
mod item;
mod len;
mod limits;
mod maps;
mod net;
mod pointers;
mod primitives;
mod reader;
mod strings;
mod time;
mod tuples;
pub mod varint;
mod writer;

pub(crate) use self::item::append_item;
pub use self::{
    len::Len,
    limits::Limits,
    reader::{Reader, Scope},
    writer::Writer,
};
use crate::error::{DecodeError, DecodeErrorKind, EncodeError};

/// A value that can be written to the wire.
///
/// Implemented by `#[derive(Wire)]` and `#[packet]`; by hand only for types with an encoding of their own.
///
/// Writing cannot fail half-way in a caller's hands: a [`Writer`] remembers the first error, ignores what follows, and
/// whoever started the message finds the error at its end and takes everything back.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be written to the wire",
    label = "not a wire type",
    note = "add `#[derive(Wire)]` to `{Self}`, or `#[wire(with = module)]` or `#[wire(skip)]` to the field"
)]
pub trait Encode {
    /// The size in bytes of every value of this type, where it is the same for all.
    const FIXED_SIZE: Option<usize> = None;

    /// Appends the value.
    fn encode(&self, w: &mut Writer<'_>);

    /// A guess at the encoded size in bytes, used to reserve space. May be wrong both ways.
    fn size_hint(&self) -> usize {
        Self::FIXED_SIZE.unwrap_or(16)
    }

    /// Appends `items` one after the other, without a count. Numbers override this with one bulk copy.
    fn encode_slice(items: &[Self], w: &mut Writer<'_>)
    where
        Self: Sized,
    {
        for item in items {
            item.encode(w);
        }
    }
}

/// A value that can be read from bytes that live for `'de`.
///
/// Types that borrow (`&str`, `&[u8]`, structs of them) tie their lifetime to `'de`; owned types implement it for
/// every `'de`, which is what [`DecodeOwned`] says.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be read from the wire",
    label = "not a wire type",
    note = "add `#[derive(Wire)]` to `{Self}`, or `#[wire(with = module)]` or `#[wire(skip)]` to the field"
)]
pub trait Decode<'de>: Sized {
    /// The fewest bytes that any value of this type can take. Bounds counts before anything is reserved.
    ///
    /// 0 is always correct and costs only precision; types behind a pointer must say 0 so that recursive types work.
    const MIN_SIZE: usize = 0;

    /// Takes one value off the front.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not a value of this type or a limit is passed.
    fn decode(r: &mut Reader<'de>) -> Result<Self, DecodeError>;

    /// Takes `count` values off the front. Numbers override this with one bulk copy.
    ///
    /// # Errors
    /// As [`Decode::decode`].
    fn decode_vec(r: &mut Reader<'de>, count: usize) -> Result<Vec<Self>, DecodeError> {
        r.charge(count, size_of::<Self>())?;
        let mut out = Vec::new();
        out.try_reserve_exact(count).map_err(|_| DecodeErrorKind::TooMuchMemory)?;
        for _ in 0..count {
            out.push(Self::decode(r)?);
        }
        Ok(out)
    }

    /// Takes `N` values off the front. Numbers override this with one bulk copy.
    ///
    /// # Errors
    /// As [`Decode::decode`].
    fn decode_array<const N: usize>(r: &mut Reader<'de>) -> Result<[Self; N], DecodeError> {
        let mut slots = [const { None }; N];
        for slot in &mut slots {
            *slot = Some(Self::decode(r)?);
        }
        Ok(slots.map(|slot| slot.unwrap_or_else(|| unreachable!("the loop has filled every slot"))))
    }
}

/// A type that can be read without borrowing from the input.
pub trait DecodeOwned: for<'de> Decode<'de> {}

impl<T: for<'de> Decode<'de>> DecodeOwned for T {}

/// Encodes `value` into a fresh vector, without a size limit.
///
/// # Errors
/// [`EncodeError`] if a field is longer than its `max_len` or nests too deep.
pub fn to_vec<T: Encode + ?Sized>(value: &T) -> Result<Vec<u8>, EncodeError> {
    let mut out = Vec::with_capacity(value.size_hint());
    let mut w = Writer::new(&mut out, usize::MAX);
    value.encode(&mut w);
    w.finish()?;
    Ok(out)
}

/// Decodes a value that must fill `input` exactly, under [`Limits::default`].
///
/// # Errors
/// [`DecodeError`] if the bytes are not exactly one value of type `T`.
pub fn from_slice<'de, T: Decode<'de>>(input: &'de [u8]) -> Result<T, DecodeError> {
    let mut r = Reader::new(input, &Limits::DEFAULT);
    let value = T::decode(&mut r)?;
    r.finish()?;
    Ok(value)
}
