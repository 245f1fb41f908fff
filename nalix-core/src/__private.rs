//! What the macros expand to. Not for use by hand: it changes without notice.
//!
//! Generated code calls a function here where the same lines in every expansion would cost compile time and code size.

pub use inventory;
pub use nalix_macros::__Packet;
#[cfg(feature = "serde")]
pub use serde;
pub use std;

use crate::{
    Opcode,
    error::{DecodeError, DecodeErrorKind},
    limit::Rate,
    wire::{Encode, Reader, Writer},
};

/// The rate of a handler, which the macro has checked.
pub fn rate(count: u32, period_millis: u64, burst: u32) -> Rate {
    let rate = Rate::new(count, std::time::Duration::from_millis(period_millis));
    rate.unwrap_or(Rate::per_second(count)).with_burst(burst)
}

/// The size of a struct whose fields have these sizes.
pub const fn sum_of_fixed(fields: &[Option<usize>]) -> Option<usize> {
    let mut sum = 0usize;
    let mut i = 0;
    while i < fields.len() {
        sum = match fields[i] {
            Some(size) => match sum.checked_add(size) {
                Some(sum) => sum,
                None => return None,
            },
            None => return None,
        };
        i += 1;
    }
    Some(sum)
}

/// The least size of a struct whose fields have these.
pub const fn sum_of_min(fields: &[usize]) -> usize {
    let mut sum = 0usize;
    let mut i = 0;
    while i < fields.len() {
        sum = sum.saturating_add(fields[i]);
        i += 1;
    }
    sum
}

/// Makes room for a value whose size is known.
#[inline]
pub fn reserve<T: Encode>(w: &mut Writer<'_>) {
    if let Some(size) = T::FIXED_SIZE {
        w.reserve(size);
    }
}

/// Names the field that an error is about.
#[cold]
pub fn in_field(error: DecodeError, field: &'static str) -> DecodeError {
    error.in_field(field)
}

/// The error for a number that no variant of `name` has.
#[cold]
pub fn unknown_variant(name: &'static str, found: u64) -> DecodeError {
    DecodeError::from(DecodeErrorKind::UnknownVariant { found }).in_field(name)
}

/// The error of types that do not compile anyway.
#[cold]
pub fn fallback() -> DecodeError {
    DecodeErrorKind::Custom("").into()
}

/// A varint as the integer type that a field has.
#[inline]
pub fn narrow<T>(
    found: Result<u64, DecodeError>,
    from_wire: impl FnOnce(u64) -> Option<T>,
    expected: &'static str,
) -> Result<T, DecodeError> {
    from_wire(found?).ok_or_else(|| DecodeErrorKind::OutOfRange { expected }.into())
}

/// Reads a value that has its length in front, and drops what a newer peer has put behind its last field.
#[inline]
pub fn in_scope<'de, T>(
    r: &mut Reader<'de>,
    inner: impl FnOnce(&mut Reader<'de>) -> Result<T, DecodeError>,
) -> Result<T, DecodeError> {
    let len = r.len()?;
    let scope = r.enter_scope(len)?;
    let value = inner(r)?;
    r.leave_scope(scope);
    Ok(value)
}

/// A `max_len` as schemas hold it.
pub const fn as_u64(len: usize) -> u64 {
    len as u64
}

/// What the registry asks a packet for.
pub mod contract {
    use crate::{
        packet::{DuplexRequest, OneWay, Request, StreamRequest, Streams, UploadRequest, Uploads},
        schema::{Contract, Describe, Schema},
    };

    /// Of a packet that is not answered.
    pub fn one_way<P: OneWay>() -> Contract {
        Contract::new(Schema::of::<P>(), None, None)
    }

    /// Of a packet that is answered.
    pub fn request<P: Request>() -> Contract {
        Contract::new(Schema::of::<P>(), Some(Schema::of::<P::Reply>()), None)
    }

    /// Of a packet that declares an error type too.
    pub fn request_with_error<P: Request>() -> Contract {
        Contract::new(Schema::of::<P>(), Some(Schema::of::<P::Reply>()), Some(Schema::of::<P::Error>()))
    }

    /// Of a packet that is answered with a stream.
    pub fn stream<P: StreamRequest>() -> Contract {
        Contract::new(Schema::of::<P>(), None, None).with_item(Schema::of::<P::Item>())
    }

    /// Of one that declares an error type too.
    pub fn stream_with_error<P: StreamRequest>() -> Contract {
        with_error::<P::Error>(stream::<P>())
    }

    /// Of a packet that is followed by an upload.
    pub fn upload<P: UploadRequest>() -> Contract {
        let reply = Some(Schema::of::<P::Reply>());
        Contract::new(Schema::of::<P>(), reply, None).with_chunk(Schema::of::<P::Chunk>())
    }

    /// Of one that declares an error type too.
    pub fn upload_with_error<P: UploadRequest>() -> Contract {
        with_error::<P::Error>(upload::<P>())
    }

    /// Of a packet with a stream both ways.
    pub fn duplex<P: DuplexRequest>() -> Contract {
        let (item, chunk) = (Schema::of::<<P as Streams>::Item>(), Schema::of::<<P as Uploads>::Chunk>());
        Contract::new(Schema::of::<P>(), None, None).with_item(item).with_chunk(chunk)
    }

    /// Of one that declares an error type too.
    pub fn duplex_with_error<P: DuplexRequest>() -> Contract {
        with_error::<<P as Streams>::Error>(duplex::<P>())
    }

    fn with_error<E: Describe>(contract: Contract) -> Contract {
        Contract { error: Some(Schema::of::<E>()), ..contract }
    }
}

/// Whether a handler before `name` serves `opcode`: its message, if so. Each entry is the opcode of a handler, its name,
/// and what to say to a later one. Reserved opcodes belong to packets that do not compile and are left out.
pub const fn served_before(
    entries: &[(Opcode, &str, &'static str)],
    opcode: Opcode,
    name: &str,
) -> Option<&'static str> {
    if opcode.is_reserved() {
        return None;
    }
    let mut i = 0;
    while i < entries.len() {
        let (found, by, message) = entries[i];
        if found.get() == opcode.get() {
            return if same(by, name) { None } else { Some(message) };
        }
        i += 1;
    }
    None
}

/// `==` for strings, in a constant.
const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}
