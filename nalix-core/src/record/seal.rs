//! Sealed records: one key, one counter and one direction each. No I/O, and no allocation per record.

use std::fmt;

use thiserror::Error;

use super::{Chosen, Cipher, HEADER, Key, MAX_BODY, RecordKind, TAG, Unauthentic, header, parse};
use crate::error::ProtocolError;

/// How many records are sealed under one key. Then the next key takes over, [`Cipher::next_key`], without a message.
pub const RECORDS_PER_KEY: u64 = 1 << 20;

/// How many records one direction of a connection may seal. Then it must close.
pub const MAX_RECORDS: u64 = 1 << 60;

/// Seals what one side sends.
///
/// Records are counted from zero and the counter never travels: the other side counts as well. It goes on counting when the
/// key changes, so that no pair of key and counter comes twice.
pub struct Sealer<C = Chosen> {
    direction: Direction<C>,
}

impl Sealer {
    /// Starts at the first record, with the suite that every peer has. Both directions of a connection need keys of their own.
    pub fn new(key: Key) -> Self {
        Self::at(key, 0)
    }
}

impl<C: Cipher> Sealer<C> {
    /// Starts at the first record, with a cipher of its own.
    pub fn with(cipher: C) -> Self {
        Self { direction: Direction { cipher, counter: 0 } }
    }

    /// Starts at any record, with the key that is in use there. For tests.
    #[doc(hidden)]
    pub fn at(key: Key, counter: u64) -> Self {
        Self { direction: Direction::at(&key, counter) }
    }

    /// Seals the record that starts at `start` in `buf` and reaches to its end: first [`HEADER`] bytes that are left for the
    /// header, then the body in the clear. Writes the header, encrypts the body in place and appends the tag of [`TAG`] bytes.
    ///
    /// On an error neither `buf` nor the sealer has changed, and the body is still in the clear: it must not be sent.
    ///
    /// # Panics
    /// If there are fewer than [`HEADER`] bytes from `start` on.
    pub fn seal(&mut self, buf: &mut Vec<u8>, start: usize) -> Result<(), SealError> {
        let (head, body) =
            buf[start..].split_first_chunk_mut::<HEADER>().expect("room is left for a record's header");
        let len = body.len() + TAG;
        if len > MAX_BODY {
            return Err(SealError::TooLong { found: body.len() });
        }
        let counter = self.direction.counter().map_err(|Exhausted| SealError::Exhausted)?;
        *head = header(RecordKind::Sealed, len);
        let tag = self.direction.cipher.seal(counter, head, body);
        buf.extend_from_slice(&tag);
        self.direction.advance();
        Ok(())
    }
}

/// Opens what the other side has sealed, in the order in which it was sealed.
pub struct Opener<C = Chosen> {
    direction: Direction<C>,
}

impl Opener {
    /// Starts at the first record, with the suite that every peer has and the key that the other side seals under.
    pub fn new(key: Key) -> Self {
        Self::at(key, 0)
    }
}

impl<C: Cipher> Opener<C> {
    /// Starts at the first record, with the cipher that the other side seals with.
    pub fn with(cipher: C) -> Self {
        Self { direction: Direction { cipher, counter: 0 } }
    }

    /// Starts at any record, with the key that is in use there. For tests.
    #[doc(hidden)]
    pub fn at(key: Key, counter: u64) -> Self {
        Self { direction: Direction::at(&key, counter) }
    }

    /// Opens the body of a record, ciphertext and tag, in place. Returns the length of the plaintext, which is at the start
    /// of `body`.
    ///
    /// On an error the opener has not changed, and what is in `body` must not be used. The connection ought to close: on a link
    /// that keeps its promises, the peer or somebody in between has done wrong.
    pub fn open(&mut self, head: [u8; HEADER], body: &mut [u8]) -> Result<usize, OpenError> {
        let counter = self.direction.counter().map_err(|Exhausted| OpenError::Exhausted)?;
        if parse(head) != Ok((RecordKind::Sealed, body.len())) {
            return Err(OpenError::Unauthentic);
        }
        let (data, tag) = body.split_last_chunk_mut::<TAG>().ok_or(OpenError::Unauthentic)?;
        self.direction
            .cipher
            .open(counter, &head, data, tag)
            .map_err(|Unauthentic| OpenError::Unauthentic)?;
        self.direction.advance();
        Ok(data.len())
    }
}

/// Why a record is not sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SealError {
    /// This direction has sealed [`MAX_RECORDS`] records. The connection must close.
    #[error("too many records for one connection")]
    Exhausted,
    /// With its tag the body would be longer than [`MAX_BODY`].
    #[error("body of {found} bytes, the limit is {limit}", limit = MAX_BODY - TAG)]
    TooLong {
        /// Its length without the tag, in bytes.
        found: usize,
    },
}

/// Why a record does not open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// It is not the record that the peer sealed at this place: too short, changed, repeated, left out, under another key.
    #[error("a sealed record did not open")]
    Unauthentic,
    /// This direction has opened [`MAX_RECORDS`] records. The connection must close.
    #[error("too many records for one connection")]
    Exhausted,
}

impl From<OpenError> for ProtocolError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Unauthentic => ProtocolError::Unauthentic,
            OpenError::Exhausted => ProtocolError::TooManyRecords,
        }
    }
}

/// What both ends of a direction keep in step.
struct Direction<C> {
    cipher: C,
    /// The number of the next record.
    counter: u64,
}

/// The counter has reached its end.
struct Exhausted;

impl<C: Cipher> Direction<C> {
    fn at(key: &Key, counter: u64) -> Self {
        Self { cipher: C::new(key), counter }
    }

    /// The number of the record at hand.
    #[inline]
    fn counter(&self) -> Result<u64, Exhausted> {
        if self.counter < MAX_RECORDS { Ok(self.counter) } else { Err(Exhausted) }
    }

    /// The record at hand is done. The old key goes at once, so that a key found later opens nothing of before.
    #[inline]
    fn advance(&mut self) {
        self.counter += 1;
        if self.counter.is_multiple_of(RECORDS_PER_KEY) {
            self.cipher = self.cipher.renewed();
        }
    }
}

impl<C> fmt::Debug for Sealer<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sealer").field("counter", &self.direction.counter).finish_non_exhaustive()
    }
}

impl<C> fmt::Debug for Opener<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opener").field("counter", &self.direction.counter).finish_non_exhaustive()
    }
}
