//! Spans of time and moments: seconds, then nanoseconds below a thousand million.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{Decode, Encode, Reader, Writer};
use crate::error::{DecodeError, DecodeErrorKind, EncodeError};

impl Encode for Duration {
    const FIXED_SIZE: Option<usize> = Some(12);

    fn encode(&self, w: &mut Writer<'_>) {
        self.as_secs().encode(w);
        self.subsec_nanos().encode(w);
    }
}

impl<'de> Decode<'de> for Duration {
    const MIN_SIZE: usize = 12;

    fn decode(r: &mut Reader<'de>) -> Result<Self, DecodeError> {
        Ok(Duration::new(u64::decode(r)?, nanos(r)?))
    }
}

/// Seconds since 1970 as an `i64`, rounded down, so that the nanoseconds always count forwards.
impl Encode for SystemTime {
    const FIXED_SIZE: Option<usize> = Some(12);

    fn encode(&self, w: &mut Writer<'_>) {
        match since_epoch(*self) {
            Some((secs, nanos)) => {
                secs.encode(w);
                nanos.encode(w);
            }
            None => w.fail(EncodeError::Custom("time is out of range for 64 bits of seconds")),
        }
    }
}

impl<'de> Decode<'de> for SystemTime {
    const MIN_SIZE: usize = 12;

    fn decode(r: &mut Reader<'de>) -> Result<Self, DecodeError> {
        let secs = i64::decode(r)?;
        let nanos = nanos(r)?;
        let whole = Duration::from_secs(secs.unsigned_abs());
        let second = if secs < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
        second
            .and_then(|second| second.checked_add(Duration::from_nanos(nanos.into())))
            .ok_or(DecodeErrorKind::OutOfRange { expected: "SystemTime" }.into())
    }
}

fn since_epoch(time: SystemTime) -> Option<(i64, u32)> {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => Some((i64::try_from(after.as_secs()).ok()?, after.subsec_nanos())),
        Err(before) => {
            let before = before.duration();
            let secs = 0i64.checked_sub_unsigned(before.as_secs())?;
            match before.subsec_nanos() {
                0 => Some((secs, 0)),
                nanos => Some((secs.checked_sub(1)?, NANOS_PER_SEC - nanos)),
            }
        }
    }
}

fn nanos(r: &mut Reader<'_>) -> Result<u32, DecodeError> {
    let nanos = u32::decode(r)?;
    if nanos < NANOS_PER_SEC {
        Ok(nanos)
    } else {
        Err(DecodeErrorKind::OutOfRange { expected: "nanoseconds" }.into())
    }
}

const NANOS_PER_SEC: u32 = 1_000_000_000;
