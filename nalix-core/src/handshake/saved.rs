//! Values with secrets as bytes that outlive the process: a version, then the fields, then nothing.

use std::time::{SystemTime, UNIX_EPOCH};

use zeroize::Zeroizing;

use super::PublicKey;
use crate::{
    error::{DecodeError, DecodeErrorKind},
    wire::{Encode, Limits, Reader, Writer},
};

pub(super) trait Saved: Sized {
    /// What an error about the version names.
    const VERSION_FIELD: &'static str;

    /// How many bytes [`Saved::write`] writes.
    fn len(&self) -> usize;

    fn write(&self, w: &mut Writer<'_>);

    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError>;
}

pub(super) fn to_bytes<T: Saved>(value: &T) -> Zeroizing<Vec<u8>> {
    // Of the right length at once: a vector that grows leaves copies behind.
    let mut out = Zeroizing::new(Vec::with_capacity(1 + value.len()));
    let mut w = Writer::new(&mut out, usize::MAX);
    w.put_u8(VERSION);
    value.write(&mut w);
    let written = w.finish();
    debug_assert_eq!(written, Ok(1 + value.len()));
    out
}

pub(super) fn from_bytes<T: Saved>(bytes: &[u8]) -> Result<T, DecodeError> {
    let mut r = Reader::new(bytes, &Limits::DEFAULT);
    match r.u8()? {
        VERSION => {}
        found => {
            let error = DecodeError::new(DecodeErrorKind::UnknownVariant { found: found.into() });
            return Err(error.in_field(T::VERSION_FIELD));
        }
    }
    let value = T::read(&mut r)?;
    r.finish()?;
    Ok(value)
}

/// A moment in [`TIME_LEN`] bytes. What ended before 1970 has ended in 1970 as well; clamping it makes every
/// moment one that can be written.
pub(super) fn put_time(w: &mut Writer<'_>, time: SystemTime) {
    time.max(UNIX_EPOCH).encode(w);
}

pub(super) fn public_key(r: &mut Reader<'_>) -> Result<PublicKey, DecodeError> {
    let unusable = DecodeErrorKind::Custom("not a usable public key");
    PublicKey::from_bytes(r.array()?).map_err(|_| unusable.into())
}

pub(super) const TIME_LEN: usize = 12;

const VERSION: u8 = 1;
