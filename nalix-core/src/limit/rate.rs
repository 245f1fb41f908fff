//! How often, and how much at once.

use std::{fmt, str::FromStr, time::Duration};

use thiserror::Error;

/// So many per period, and so many at once.
///
/// It is kept as the time that one of them takes, rounded up to whole nanoseconds: never more than the rate, and less by at
/// most one nanosecond each.
///
/// ```
/// use nalix_core::limit::Rate;
///
/// let rate: Rate = "5/s".parse()?;
/// assert_eq!(rate.burst(), 5);
/// assert_eq!(rate.with_burst(10).burst(), 10);
/// # Ok::<(), nalix_core::limit::ParseRateError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rate {
    /// Nanoseconds from one to the next, at least 1.
    interval: u64,
    /// At least 1.
    burst: u32,
}

impl Rate {
    /// `count` in each `period`, all of which may come at once; `None` if either is zero, or if the period is over 365
    /// days.
    pub const fn new(count: u32, period: Duration) -> Option<Self> {
        if count == 0 || period.is_zero() || period.as_secs() > LONGEST {
            return None;
        }
        // Far below 2^64: the longest period is some 2^55 nanoseconds.
        let nanos = period.as_secs() * NANOS + period.subsec_nanos() as u64;
        Some(Self { interval: nanos.div_ceil(count as u64), burst: count })
    }

    /// `count` in each second; at least one.
    pub const fn per_second(count: u32) -> Self {
        let count = if count == 0 { 1 } else { count };
        Self { interval: NANOS.div_ceil(count as u64), burst: count }
    }

    /// How many may come at once after a pause; zero counts as one. Without this it is as many as come in a period.
    #[must_use]
    pub const fn with_burst(mut self, burst: u32) -> Self {
        self.burst = if burst == 0 { 1 } else { burst };
        self
    }

    /// How many may come at once.
    pub const fn burst(&self) -> u32 {
        self.burst
    }

    /// The time from one to the next, once a burst is used up.
    pub const fn interval(&self) -> Duration {
        Duration::from_nanos(self.interval)
    }

    /// How much time `cost` of them take, in nanoseconds.
    #[inline]
    pub(super) const fn price(&self, cost: u32) -> u64 {
        self.interval.saturating_mul(cost as u64)
    }

    /// How far ahead of time a bucket may get, in nanoseconds.
    #[inline]
    pub(super) const fn tolerance(&self) -> u64 {
        self.price(self.burst)
    }
}

/// For people: a rate is not kept as it was written.
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "one per {:?}, {} at once", self.interval(), self.burst)
    }
}

/// Why a text is no rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParseRateError {
    /// It is not a count and a period.
    #[error("a rate is a count and a period, such as \"10/s\" or \"100/5min\"")]
    Form,
    /// The count is zero, or over 2^32 - 1.
    #[error("the count of a rate is from 1 to 4294967295")]
    Count,
    /// The period is zero, too long, or has an unknown unit.
    #[error("the period of a rate is a number (or none, for 1) and one of ms, s, min, h, d; at most 365 d")]
    Period,
}

impl FromStr for Rate {
    type Err = ParseRateError;

    /// `"10/s"`, `"100/5min"`: units are ms, s, min, h and d.
    fn from_str(text: &str) -> Result<Self, ParseRateError> {
        let (count, period) = text.split_once('/').ok_or(ParseRateError::Form)?;
        let (count, period) = (count.trim(), period.trim());
        if count.is_empty() || !count.bytes().all(|c| c.is_ascii_digit()) {
            return Err(ParseRateError::Form);
        }
        let count = count.parse().map_err(|_| ParseRateError::Count)?;
        if count == 0 {
            return Err(ParseRateError::Count);
        }
        let digits = period.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = period.split_at(digits);
        let number: u64 = if digits == 0 { 1 } else { number.parse().map_err(|_| ParseRateError::Period)? };
        let millis = match unit.trim_start() {
            "ms" => 1,
            "s" => 1_000,
            "min" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return Err(ParseRateError::Period),
        };
        let period = Duration::from_millis(number.checked_mul(millis).ok_or(ParseRateError::Period)?);
        Self::new(count, period).ok_or(ParseRateError::Period)
    }
}

const NANOS: u64 = 1_000_000_000;
/// In seconds.
const LONGEST: u64 = 365 * 86_400;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read() {
        let read = |text: &str| text.parse::<Rate>().map(|rate| (rate.interval().as_nanos(), rate.burst()));
        assert_eq!(read("10/s"), Ok((100_000_000, 10)));
        assert_eq!(read(" 1 / 2 min "), Ok((120_000_000_000, 1)));
        assert_eq!(read("3/s"), Ok((333_333_334, 3)));
        assert_eq!(read("4294967295/ms"), Ok((1, u32::MAX)));
        assert_eq!(read("1/365d").map(|(_, burst)| burst), Ok(1));
        for form in ["", "10", "/s", "ten/s", "-1/s", "1.5/s", "+1/s"] {
            assert_eq!(read(form), Err(ParseRateError::Form), "{form:?}");
        }
        for count in ["0/s", "4294967296/s"] {
            assert_eq!(read(count), Err(ParseRateError::Count), "{count:?}");
        }
        for period in
            ["1/", "1/0s", "1/366d", "1/y", "1/s2", "1/99999999999999999999s", "1/999999999999999999d"]
        {
            assert_eq!(read(period), Err(ParseRateError::Period), "{period:?}");
        }
    }

    #[test]
    fn absurd_values_are_kept_in_range() {
        assert_eq!(Rate::new(0, Duration::from_secs(1)), None);
        assert_eq!(Rate::new(1, Duration::ZERO), None);
        assert_eq!(Rate::new(1, Duration::MAX), None);
        assert_eq!(Rate::per_second(0), Rate::per_second(1));
        assert_eq!(Rate::per_second(1).with_burst(0).burst(), 1);
        let slow = Rate::new(1, Duration::from_secs(LONGEST)).unwrap().with_burst(u32::MAX);
        assert_eq!(slow.tolerance(), u64::MAX);
    }
}
