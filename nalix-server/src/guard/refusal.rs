//! Why a link is turned away, and whether it is told.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use nalix_core::{Advice, CloseCode, CloseReason};

/// Why a link was turned away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RefusalCause {
    /// Its address is denied, or others are allowed only.
    Denied,
    /// Its address is banned.
    Banned,
    /// Its address has as many links as it may.
    TooManyFromAddress,
    /// Links have come from its address too often.
    TooFastFromAddress,
    /// The server has as many connections as it may.
    Full,
    /// Too many handshakes go on, in all or from its address.
    Handshakes,
    /// It came from a trusted proxy, and did not begin with a good PROXY header in time.
    ProxyHeader,
}

/// A link is turned away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refusal {
    /// Why.
    pub cause: RefusalCause,
    /// When it may come again, if that is known.
    pub retry_after: Option<Duration>,
    /// Whether its peer is to be told: not if another from its address was a moment ago.
    pub tell: bool,
}

impl Refusal {
    /// What its peer is told.
    pub fn reason(&self) -> CloseReason {
        let message = match self.cause {
            RefusalCause::Denied => "this address is not let in",
            RefusalCause::Banned => "this address is banned for a while",
            RefusalCause::TooManyFromAddress => "too many connections from this address",
            RefusalCause::TooFastFromAddress => "connections come too fast from this address",
            RefusalCause::Full => "too many connections",
            RefusalCause::Handshakes => "too many handshakes at once",
            RefusalCause::ProxyHeader => "there is no PROXY header",
        };
        let advice = match self.cause {
            RefusalCause::Denied | RefusalCause::ProxyHeader => Advice::GiveUp,
            _ => Advice::Retry { after: Some(self.retry_after.unwrap_or(Duration::from_secs(1))) },
        };
        CloseReason::new(CloseCode::LimitExceeded, message).with_advice(advice)
    }
}

/// How many links were turned away, by cause.
#[derive(Debug, Default)]
pub(super) struct Counts([AtomicU64; RefusalCause::ALL.len()]);

impl Counts {
    pub(super) fn add(&self, cause: RefusalCause) {
        self.0[cause as usize].fetch_add(1, Relaxed);
    }

    pub(super) fn of(&self, cause: RefusalCause) -> u64 {
        self.0[cause as usize].load(Relaxed)
    }
}

impl RefusalCause {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Denied,
        Self::Banned,
        Self::TooManyFromAddress,
        Self::TooFastFromAddress,
        Self::Full,
        Self::Handshakes,
        Self::ProxyHeader,
    ];
}

/// When which address was told last, as far as there is room: two may share a place, and then one of them is told less
/// often. So in all, no more are told in an interval than there are places.
#[derive(Debug)]
pub(super) struct Told {
    interval: u64,
    again_at: Box<[AtomicU64]>,
}

impl Told {
    pub(super) fn new(interval: Duration) -> Self {
        let places = if interval.is_zero() { 0 } else { PLACES };
        let interval = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
        Self { interval, again_at: (0..places).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Whether one is told now, at so many nanoseconds, whose address has this hash.
    pub(super) fn may(&self, hash: u64, cause: RefusalCause, now: u64) -> bool {
        if self.again_at.is_empty() {
            return true;
        }
        // The hash is keyed, so that nobody can choose whose place he takes.
        let at = (hash as usize).wrapping_add(cause as usize * (PLACES / 8)) % PLACES;
        let place = &self.again_at[at];
        let again_at = place.load(Relaxed);
        // Of several at the same moment, one is told.
        now >= again_at
            && place.compare_exchange(again_at, now.saturating_add(self.interval), Relaxed, Relaxed).is_ok()
    }
}

const PLACES: usize = 4_096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_count_apart() {
        let counts = Counts::default();
        for (n, cause) in RefusalCause::ALL.into_iter().enumerate() {
            assert_eq!(cause as usize, n);
            (0..n).for_each(|_| counts.add(cause));
        }
        for (n, cause) in RefusalCause::ALL.into_iter().enumerate() {
            assert_eq!(counts.of(cause), n as u64);
        }
    }

    #[test]
    fn one_is_told_once_in_an_interval_and_for_each_cause() {
        let told = Told::new(Duration::from_nanos(10));
        for cause in RefusalCause::ALL {
            assert!(told.may(7, cause, 5) && !told.may(7, cause, 14), "{cause:?}");
            assert!(told.may(7, cause, 15) && !told.may(7, cause, 24));
            assert!(told.may(8, cause, 5));
        }
        assert!((0..9).all(|_| Told::new(Duration::ZERO).may(1, RefusalCause::Full, 0)));
        let never_again = Told::new(Duration::MAX);
        assert!(
            never_again.may(1, RefusalCause::Full, 1) && !never_again.may(1, RefusalCause::Full, 1 << 62)
        );
    }

    #[test]
    fn a_flood_of_addresses_is_told_no_more_often_than_there_are_places() {
        let told = Told::new(Duration::from_secs(1));
        let count = (0..100_000_u64)
            .filter(|hash| told.may(hash.wrapping_mul(0x9e37_79b9), RefusalCause::Denied, 1))
            .count();
        assert!(count <= PLACES, "{count}");
    }
}
