//! A bounded cursor over received bytes.

use bytes::Bytes;

use super::{Decode, Limits, varint};
use crate::error::{DecodeError, DecodeErrorKind};

/// Reads values off the front of a byte slice, under [`Limits`].
#[derive(Debug)]
pub struct Reader<'de> {
    rest: &'de [u8],
    /// The buffer `rest` lies in, when there is one: lets [`Bytes`] be taken without a copy.
    source: Option<&'de Bytes>,
    /// Levels that may still be entered.
    depth_left: u16,
    max_depth: u16,
    /// What the next length may be at the most; `usize::MAX` but inside [`Reader::with_max_len`].
    max_len: usize,
    /// Items that may still be claimed by collections whose items may take no bytes.
    items_left: usize,
    memory_left: usize,
}

/// What [`Reader::enter_scope`] set aside; give it back to [`Reader::leave_scope`].
#[derive(Debug)]
#[must_use = "the bytes behind the scope are lost unless it is left again"]
pub struct Scope<'de> {
    behind: &'de [u8],
}

impl<'de> Reader<'de> {
    /// Reads from a slice; [`Bytes`] fields are copied out of it.
    #[inline]
    pub fn new(input: &'de [u8], limits: &Limits) -> Self {
        Self {
            rest: input,
            source: None,
            depth_left: limits.max_depth,
            max_depth: limits.max_depth,
            max_len: usize::MAX,
            // Honest items that take a byte or more are paid for by the input, the others are free up to the limit.
            items_left: limits.max_empty_items.saturating_add(input.len()),
            memory_left: limits.budget(input.len()),
        }
    }

    /// Reads from a counted buffer; [`Bytes`] fields become slices of it.
    #[inline]
    pub fn from_bytes(input: &'de Bytes, limits: &Limits) -> Self {
        Self { source: Some(input), ..Self::new(input, limits) }
    }

    /// How many bytes are left.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Whether nothing is left.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Takes `n` bytes.
    ///
    /// # Errors
    /// [`DecodeErrorKind::Truncated`] if fewer are left; nothing is consumed then.
    #[inline]
    pub fn bytes(&mut self, n: usize) -> Result<&'de [u8], DecodeError> {
        match self.rest.split_at_checked(n) {
            Some((head, rest)) => {
                self.rest = rest;
                Ok(head)
            }
            None => Err(truncated(n - self.rest.len())),
        }
    }

    /// Takes `N` bytes as an array.
    ///
    /// # Errors
    /// As [`Reader::bytes`].
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        match self.rest.split_first_chunk::<N>() {
            Some((head, rest)) => {
                self.rest = rest;
                Ok(*head)
            }
            None => Err(truncated(N - self.rest.len())),
        }
    }

    /// Takes one byte.
    ///
    /// # Errors
    /// As [`Reader::bytes`].
    #[inline]
    pub fn u8(&mut self) -> Result<u8, DecodeError> {
        self.array::<1>().map(|[b]| b)
    }

    /// Takes a byte that must be 0 or 1.
    ///
    /// # Errors
    /// [`DecodeErrorKind::BadFlag`] for any other byte.
    #[inline]
    pub fn flag(&mut self) -> Result<bool, DecodeError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            found => Err(DecodeErrorKind::BadFlag { found }.into()),
        }
    }

    /// Takes a canonical LEB128 varint.
    ///
    /// # Errors
    /// [`DecodeErrorKind::BadVarint`] if it has more bytes than it needs or does not fit a `u64`.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, DecodeError> {
        match self.rest {
            // One byte is by far the commonest length.
            [b, rest @ ..] if *b < 0x80 => {
                self.rest = rest;
                Ok(u64::from(*b))
            }
            _ => {
                let (value, rest) = varint::split(self.rest)?;
                self.rest = rest;
                Ok(value)
            }
        }
    }

    /// Takes a byte length: a varint that must not exceed the bytes left.
    ///
    /// # Errors
    /// As [`Reader::count`].
    #[inline]
    pub fn len(&mut self) -> Result<usize, DecodeError> {
        self.count::<u8>()
    }

    /// Takes the count of a collection of `T`, checked against the bytes left before anything is reserved for it.
    ///
    /// # Errors
    /// As [`Reader::varint`]; [`DecodeErrorKind::Truncated`] if the bytes left cannot hold that many items;
    /// [`DecodeErrorKind::TooLong`] if the count is above the limit of [`Reader::with_max_len`], or the items may take
    /// no bytes and are more than [`Limits::max_empty_items`](field@Limits::max_empty_items) and the input together justify.
    #[inline]
    pub fn count<T: Decode<'de>>(&mut self) -> Result<usize, DecodeError> {
        let found = self.varint()?;
        let limit = std::mem::replace(&mut self.max_len, usize::MAX);
        let count = usize::try_from(found).unwrap_or(usize::MAX);
        if count > limit {
            return Err(too_long(found, limit));
        }
        if T::MIN_SIZE == 0 {
            let Some(left) = self.items_left.checked_sub(count) else {
                return Err(too_long(found, self.items_left));
            };
            self.items_left = left;
            return Ok(count);
        }
        let needed = count.saturating_mul(T::MIN_SIZE);
        if needed > self.rest.len() {
            return Err(truncated(needed - self.rest.len()));
        }
        Ok(count)
    }

    /// Runs `inner`, in which the first length or count read must not be above `limit` (the attribute `max_len`). Checked
    /// before anything is reserved. Lengths further in are not affected.
    ///
    /// # Errors
    /// [`DecodeErrorKind::TooLong`] above the limit, and whatever `inner` fails with.
    #[inline]
    pub fn with_max_len<T>(
        &mut self,
        limit: usize,
        inner: impl FnOnce(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<T, DecodeError> {
        self.max_len = limit;
        let out = inner(self);
        // A `None` has read no length: its limit must not fall on the next field.
        self.max_len = usize::MAX;
        out
    }

    /// Charges memory for `count` items of `size` bytes each, to be called before reserving it.
    ///
    /// # Errors
    /// [`DecodeErrorKind::TooMuchMemory`] once the message's budget is spent.
    #[inline]
    pub fn charge(&mut self, count: usize, size: usize) -> Result<(), DecodeError> {
        match self.memory_left.checked_sub(count.saturating_mul(size)) {
            Some(left) => {
                self.memory_left = left;
                Ok(())
            }
            None => Err(DecodeErrorKind::TooMuchMemory.into()),
        }
    }

    /// Runs `inner` one level deeper. Every container does, so that no recursive type escapes the bound.
    ///
    /// # Errors
    /// [`DecodeErrorKind::TooDeep`] beyond [`Limits::max_depth`](field@Limits::max_depth), and whatever `inner` fails with.
    #[inline]
    pub fn nested<T>(
        &mut self,
        inner: impl FnOnce(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<T, DecodeError> {
        let Some(left) = self.depth_left.checked_sub(1) else {
            return Err(DecodeErrorKind::TooDeep { limit: self.max_depth }.into());
        };
        self.depth_left = left;
        let out = inner(self);
        self.depth_left = left + 1;
        out
    }

    /// Runs `inner` with at most `levels` further levels to go (the attribute `max_depth`).
    ///
    /// # Errors
    /// As [`Reader::nested`].
    pub fn with_max_depth<T>(
        &mut self,
        levels: u16,
        inner: impl FnOnce(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<T, DecodeError> {
        let (left, max) = (self.depth_left, self.max_depth);
        if levels < left {
            (self.depth_left, self.max_depth) = (levels, levels);
        }
        let out = inner(self);
        (self.depth_left, self.max_depth) = (left, max);
        out
    }

    /// Takes `n` bytes as a counted buffer: a slice of the source if there is one, else a copy.
    ///
    /// # Errors
    /// As [`Reader::bytes`].
    pub fn shared(&mut self, n: usize) -> Result<Bytes, DecodeError> {
        let slice = self.bytes(n)?;
        match self.source {
            Some(source) => Ok(source.slice_ref(slice)),
            None => {
                self.charge(n, 1)?;
                Ok(Bytes::copy_from_slice(slice))
            }
        }
    }

    /// Narrows the reader to the next `n` bytes, which an extensible value fills.
    ///
    /// # Errors
    /// As [`Reader::bytes`].
    pub fn enter_scope(&mut self, n: usize) -> Result<Scope<'de>, DecodeError> {
        let inside = self.bytes(n)?;
        Ok(Scope { behind: std::mem::replace(&mut self.rest, inside) })
    }

    /// Drops what is left of the scope and goes on behind it.
    pub fn leave_scope(&mut self, scope: Scope<'de>) {
        self.rest = scope.behind;
    }

    /// Checks that nothing is left over.
    ///
    /// # Errors
    /// [`DecodeErrorKind::TrailingBytes`] if something is.
    #[inline]
    pub fn finish(&self) -> Result<(), DecodeError> {
        match self.rest.len() {
            0 => Ok(()),
            left => Err(DecodeErrorKind::TrailingBytes { left }.into()),
        }
    }
}

#[cold]
fn too_long(found: u64, limit: usize) -> DecodeError {
    DecodeErrorKind::TooLong { found, limit: limit as u64 }.into()
}

#[cold]
fn truncated(missing: usize) -> DecodeError {
    DecodeErrorKind::Truncated { missing }.into()
}
