//! The metadata block in front of a packet: entries of key, length and value, of which a reader skips those it does
//! not know.

use std::time::Duration;

use crate::{error::ProtocolError, wire::varint};

/// The most bytes a metadata block may take, without its length.
pub const MAX_METADATA: usize = 1024;

/// What travels with a packet besides its payload.
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
        let mut block = [0u8; 3 + varint::MAX_LEN];
        let mut n = 1;
        if let Some(remaining) = self.remaining {
            let micros = round_up(remaining);
            block[1] = REMAINING;
            block[2] = varint::len(micros) as u8;
            n = 3 + varint::put(micros, &mut block[3..]);
        }
        // The block is far below 128 bytes, so its length is one byte.
        block[0] = n as u8 - 1;
        // A copy of fixed length needs no call.
        let start = out.len();
        out.extend_from_slice(&block);
        out.truncate(start + n);
    }

    /// Takes the block off the front of a payload and returns it with its length in bytes.
    ///
    /// # Errors
    /// [`ProtocolError::BadFrame`] if it is malformed or too long.
    #[inline]
    pub fn split(payload: &[u8]) -> Result<(Self, usize), ProtocolError> {
        let mut rest = payload;
        let mut block = take(&mut rest)?;
        if block.len() > MAX_METADATA {
            return Err(ProtocolError::BadFrame { what: "metadata too long" });
        }
        let mut metadata = Metadata::default();
        while let Some((&key, behind)) = block.split_first() {
            block = behind;
            let value = take(&mut block)?;
            if key == REMAINING {
                let (micros, behind) = varint::split(value).map_err(|_| BAD)?;
                if !behind.is_empty() || metadata.remaining.is_some() {
                    return Err(BAD);
                }
                metadata.remaining = Some(Duration::from_micros(micros));
            }
        }
        Ok((metadata, payload.len() - rest.len()))
    }
}

/// Whole microseconds, rounded up, so that the time is not over at the receiver before it is here.
#[inline]
fn round_up(time: Duration) -> u64 {
    // Not by way of `as_nanos`: dividing 128 bits takes longer than everything else here.
    let micros = u64::from(time.subsec_nanos().div_ceil(1_000));
    time.as_secs().saturating_mul(1_000_000).saturating_add(micros)
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
const BAD: ProtocolError = ProtocolError::BadFrame { what: "bad metadata" };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remaining_time_round_trips_and_unknown_keys_are_skipped() {
        let metadata = Metadata::remaining(Duration::from_millis(2500));
        let mut out = Vec::new();
        Metadata::encode(&metadata, &mut out);
        out.extend_from_slice(b"payload");
        assert_eq!(Metadata::split(&out).unwrap(), (metadata, out.len() - 7));

        let unknown = [5, 0x77, 3, 1, 2, 3];
        assert_eq!(Metadata::split(&unknown).unwrap(), (Metadata::default(), 6));
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
        ] {
            assert!(Metadata::split(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn endless_remaining_time_saturates() {
        let mut out = Vec::new();
        Metadata::encode(&Metadata::remaining(Duration::MAX), &mut out);
        assert_eq!(Metadata::split(&out).unwrap().0.remaining, Some(Duration::from_micros(u64::MAX)));
    }
}
