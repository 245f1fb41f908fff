//! The metadata block in front of a packet: entries of key, length and value, of which a reader skips those it does
//! not know.

use std::time::Duration;

use super::entries::{Entries, split_entry};
use crate::{error::ProtocolError, wire::varint};

/// The most bytes a metadata block may take, without its length.
pub const MAX_METADATA: usize = 1024;

/// What travels with a packet besides its payload and the user's [`Entries`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Metadata {
    /// How long the caller still waits, in whole microseconds on the wire. Remaining time, since clocks differ.
    pub remaining: Option<Duration>,
}

impl Metadata {
    /// Metadata with a remaining time.
    pub const fn remaining(remaining: Duration) -> Self {
        Self { remaining: Some(remaining) }
    }

    /// Whether there is nothing to write.
    pub const fn is_empty(&self) -> bool {
        self.remaining.is_none()
    }

    /// Writes the block with its length.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let Some(remaining) = self.remaining else { return out.push(0) };
        let micros = round_up(remaining);
        if micros >= varint::SHORT {
            return encode_long(micros, out);
        }
        // Put together in a register, as heads are. The block is far below 128 bytes, so its length is one byte.
        let (bits, len) = varint::short(micros);
        let word = (2 + len as u64) | u64::from(REMAINING) << 8 | (len as u64) << 16 | bits << 24;
        let start = out.len();
        out.extend_from_slice(&word.to_le_bytes());
        out.truncate(start + 3 + len);
    }

    /// Writes the block with its length, the user's entries behind what else there is.
    #[cold]
    pub fn encode_with(&self, entries: &Entries, out: &mut Vec<u8>) {
        let mut own = Vec::with_capacity(16);
        self.encode(&mut own);
        let entries = entries.as_bytes();
        // The first byte is the length of the others.
        let own = &own[1..];
        let mut len = [0; varint::MAX_LEN];
        let n = varint::put((own.len() + entries.len()) as u64, &mut len);
        out.extend_from_slice(&len[..n]);
        out.extend_from_slice(own);
        out.extend_from_slice(entries);
    }

    /// Takes the block off the front of a payload.
    ///
    /// # Errors
    /// [`ProtocolError::BadFrame`] if it is malformed or too long.
    #[inline]
    pub fn split(payload: &[u8]) -> Result<Block<'_>, ProtocolError> {
        let mut rest = payload;
        let block = take(&mut rest)?;
        if block.len() > MAX_METADATA {
            return Err(ProtocolError::BadFrame { what: "metadata too long" });
        }
        let mut metadata = Metadata::default();
        let mut has_entries = false;
        let mut left = block;
        while let Some((key, value)) = next(&mut left)? {
            match key {
                REMAINING => {
                    let (micros, behind) = varint::split(value).map_err(|_| BAD)?;
                    if !behind.is_empty() || metadata.remaining.is_some() {
                        return Err(BAD);
                    }
                    metadata.remaining = Some(Duration::from_micros(micros));
                }
                USER => {
                    split_entry(value).ok_or(BAD)?;
                    has_entries = true;
                }
                _ => {}
            }
        }
        Ok(Block { metadata, len: payload.len() - rest.len(), content: block, has_entries })
    }
}

/// A metadata block that has been checked.
#[derive(Debug, Clone, Copy)]
pub struct Block<'a> {
    /// What is not the user's.
    pub metadata: Metadata,
    /// How many bytes of the payload it takes.
    pub len: usize,
    content: &'a [u8],
    has_entries: bool,
}

impl Block<'_> {
    /// The user's entries, if there are any.
    #[inline]
    pub fn entries(&self) -> Option<Entries> {
        self.has_entries.then(|| self.collect())
    }

    #[cold]
    fn collect(&self) -> Entries {
        let mut left = self.content;
        // Known to be well-formed.
        let entries = std::iter::from_fn(|| next(&mut left).ok().flatten());
        Entries::collect(entries.filter(|(key, _)| *key == USER).map(|(_, value)| value))
    }
}

/// Takes an entry off the front.
#[inline]
fn next<'a>(block: &mut &'a [u8]) -> Result<Option<(u8, &'a [u8])>, ProtocolError> {
    let Some((&key, behind)) = block.split_first() else { return Ok(None) };
    *block = behind;
    Ok(Some((key, take(block)?)))
}

/// Whole microseconds, rounded up, so that the time is not over at the receiver before it is here.
#[inline]
fn round_up(time: Duration) -> u64 {
    // Not by way of `as_nanos`: dividing 128 bits takes longer than everything else here.
    let micros = u64::from(time.subsec_nanos().div_ceil(1_000));
    time.as_secs().saturating_mul(1_000_000).saturating_add(micros)
}

/// A block with a time of several hours.
#[cold]
fn encode_long(micros: u64, out: &mut Vec<u8>) {
    let mut block = [0u8; 3 + varint::MAX_LEN];
    let len = varint::put(micros, &mut block[3..]);
    block[..3].copy_from_slice(&[2 + len as u8, REMAINING, len as u8]);
    out.extend_from_slice(&block[..3 + len]);
}

/// Takes bytes with their length in front.
#[inline]
fn take<'a>(input: &mut &'a [u8]) -> Result<&'a [u8], ProtocolError> {
    let (len, rest) = varint::split(input).map_err(|_| BAD)?;
    let len = usize::try_from(len).map_err(|_| BAD)?;
    let (taken, rest) = rest.split_at_checked(len).ok_or(BAD)?;
    *input = rest;
    Ok(taken)
}

const REMAINING: u8 = 1;
pub(super) const USER: u8 = 2;
const BAD: ProtocolError = ProtocolError::BadFrame { what: "bad metadata" };

#[cfg(test)]
mod tests {
    use super::{
        super::entries::{MAX_ENTRIES, MAX_KEY},
        *,
    };

    #[test]
    fn times_of_every_length_round_trip() {
        for shift in 0..64 {
            let metadata = Metadata::remaining(Duration::from_micros(u64::MAX >> shift));
            let mut out = vec![9];
            metadata.encode(&mut out);
            out.push(7);
            let block = Metadata::split(&out[1..]).unwrap();
            assert_eq!((block.metadata, block.len), (metadata, out.len() - 2), "{shift}");
        }
    }

    #[test]
    fn remaining_time_round_trips_and_unknown_keys_are_skipped() {
        let metadata = Metadata::remaining(Duration::from_millis(2500));
        let mut out = Vec::new();
        Metadata::encode(&metadata, &mut out);
        out.extend_from_slice(b"payload");
        assert_eq!(split(&out), (metadata, out.len() - 7, None));

        let unknown = [5, 0x77, 3, 1, 2, 3];
        assert_eq!(split(&unknown), (Metadata::default(), 6, None));
    }

    fn split(payload: &[u8]) -> (Metadata, usize, Option<Entries>) {
        let block = Metadata::split(payload).unwrap();
        (block.metadata, block.len, block.entries())
    }

    #[test]
    fn entries_round_trip_with_and_without_a_remaining_time() {
        let mut entries = Entries::default();
        for n in 0..4 {
            for metadata in [Metadata::default(), Metadata::remaining(Duration::MAX)] {
                let mut out = Vec::new();
                metadata.encode_with(&entries, &mut out);
                let found = split(&out);
                assert_eq!((found.0.remaining.is_some(), found.1), (!metadata.is_empty(), out.len()));
                assert_eq!(found.2.unwrap_or_default(), entries);
            }
            entries.push(&"k".repeat(MAX_KEY - n), &vec![n as u8; 70 * n]).unwrap();
        }
        let read: Vec<_> = entries.iter().map(|(key, value)| (key.len(), value.len())).collect();
        assert_eq!(read, [(64, 0), (63, 70), (62, 140), (61, 210)]);
    }

    #[test]
    fn entries_at_their_limit_fit_a_block_and_a_byte_more_is_refused() {
        let mut entries = Entries::default();
        let most = MAX_ENTRIES - 4 - 1;
        assert!(entries.push("k", &vec![7; most + 1]).is_err());
        assert!(entries.is_empty());
        entries.push("k", &vec![7; most]).unwrap();
        assert_eq!(entries.as_bytes().len(), MAX_ENTRIES);
        assert!(entries.push("k", b"").is_err());
        let mut out = Vec::new();
        Metadata::remaining(Duration::MAX).encode_with(&entries, &mut out);
        assert_eq!(out.len(), 2 + MAX_METADATA);
        assert_eq!(split(&out).2, Some(entries.clone()));
        for bad in ["", &"k".repeat(MAX_KEY + 1)] {
            assert!(Entries::default().push(bad, b"").is_err(), "{bad}");
        }
        assert!(Entries::default().push("k", &vec![0; 1 << 20]).is_err());
    }

    #[test]
    fn secrets_in_entries_are_not_shown() {
        let mut entries = Entries::default();
        entries.push("token", b"hunter2").unwrap();
        assert_eq!(format!("{entries:?}"), r#"{"token"}"#);
    }

    #[test]
    fn malformed_blocks_are_refused() {
        for bad in [
            &[][..],
            &[1],
            &[2, 1, 5],
            &[3, 1, 2, 0x80],
            &[4, 1, 2, 0x80, 0x00],
            &[3, 1, 1],
            &[6, 1, 1, 5, 1, 1, 6],
            // Entries of the user's: without a key's length, with an empty key, with one that is cut, is not UTF-8.
            &[2, 2, 0],
            &[3, 2, 1, 0],
            &[4, 2, 2, 2, b'k'],
            &[4, 2, 2, 1, 0xff],
        ] {
            assert!(Metadata::split(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn endless_remaining_time_saturates() {
        let mut out = Vec::new();
        Metadata::encode(&Metadata::remaining(Duration::MAX), &mut out);
        assert_eq!(split(&out).0.remaining, Some(Duration::from_micros(u64::MAX)));
    }
}
