//! One bucket.

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

use super::rate::Rate;

/// Something came too often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused {
    /// After what time it may come; `None` if it costs more than is ever allowed at once.
    pub retry_after: Option<Duration>,
}

/// A token bucket: full at first, and refilled at its rate without steps.
///
/// The generic cell rate algorithm (ITU-T I.371, annex A, virtual scheduling): one number says when the bucket would be full
/// again, so that there is nothing to refill and nothing to lock. What is refused costs nothing.
pub struct Bucket {
    rate: Rate,
    start: Instant,
    full_at: AtomicU64,
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bucket").field("rate", &self.rate).finish_non_exhaustive()
    }
}

impl Bucket {
    /// A full bucket. Times before `start` count as `start`.
    pub fn new(rate: Rate, start: Instant) -> Self {
        Self { rate, start, full_at: AtomicU64::new(0) }
    }

    /// Takes `cost` tokens, if there are as many.
    ///
    /// # Errors
    /// [`Refused`] if there are not. Nothing is taken then.
    #[inline]
    pub fn take(&self, cost: u32, now: Instant) -> Result<(), Refused> {
        let now = since(self.start, now);
        let mut full_at = self.full_at.load(Relaxed);
        loop {
            let next = advance(&self.rate, full_at, cost, now)?;
            // The number is all there is to agree on: no other memory hangs on it.
            match self.full_at.compare_exchange_weak(full_at, next, Relaxed, Relaxed) {
                Ok(_) => return Ok(()),
                Err(other) => full_at = other,
            }
        }
    }

    /// The rate.
    pub fn rate(&self) -> Rate {
        self.rate
    }
}

/// When the bucket is full again after `cost` tokens have been taken at `now`, all in nanoseconds.
#[inline]
pub(super) fn advance(rate: &Rate, full_at: u64, cost: u32, now: u64) -> Result<u64, Refused> {
    let price = rate.price(cost);
    let next = full_at.max(now).saturating_add(price);
    let ahead = next - now;
    let tolerance = rate.tolerance();
    if ahead <= tolerance {
        return Ok(next);
    }
    let retry_after = (price <= tolerance).then(|| Duration::from_nanos(ahead - tolerance));
    Err(Refused { retry_after })
}

/// Nanoseconds, for some five hundred years.
#[inline]
pub(super) fn since(start: Instant, now: Instant) -> u64 {
    let passed = now.saturating_duration_since(start);
    passed.as_secs().saturating_mul(1_000_000_000).saturating_add(u64::from(passed.subsec_nanos()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn after(start: Instant, nanos: u64) -> Instant {
        start + Duration::from_nanos(nanos)
    }

    #[test]
    fn a_burst_is_spent_and_comes_back_one_by_one() {
        let start = Instant::now();
        let bucket = Bucket::new(Rate::per_second(10).with_burst(3), start);
        for _ in 0..3 {
            assert_eq!(bucket.take(1, start), Ok(()));
        }
        let refused = Refused { retry_after: Some(Duration::from_millis(100)) };
        assert_eq!(bucket.take(1, start), Err(refused));
        // Being refused costs nothing.
        assert_eq!(bucket.take(1, start), Err(refused));
        assert!(bucket.take(1, after(start, 99_999_999)).is_err());
        assert_eq!(bucket.take(1, after(start, 100_000_000)), Ok(()));
        assert!(bucket.take(2, after(start, 200_000_000)).is_err());
        assert_eq!(bucket.take(3, after(start, 1_000_000_000)), Ok(()));
    }

    #[test]
    fn what_costs_more_than_a_burst_never_passes_and_says_so() {
        let start = Instant::now();
        let bucket = Bucket::new(Rate::per_second(10).with_burst(3), start);
        assert_eq!(bucket.take(4, start), Err(Refused { retry_after: None }));
        assert_eq!(bucket.take(u32::MAX, start), Err(Refused { retry_after: None }));
        assert_eq!(bucket.take(3, start), Ok(()));
        assert_eq!(bucket.take(0, start), Ok(()));
    }

    #[test]
    fn a_clock_that_goes_back_takes_nothing_from_anybody() {
        let start = Instant::now();
        let bucket = Bucket::new(Rate::per_second(1), after(start, 5_000_000_000));
        assert_eq!(bucket.take(1, start), Ok(()));
        assert_eq!(bucket.take(1, start), Err(Refused { retry_after: Some(Duration::from_secs(1)) }));
    }

    #[test]
    fn threads_together_get_exactly_the_burst() {
        let start = Instant::now();
        let bucket = Bucket::new(Rate::per_second(1).with_burst(1_000), start);
        let taken: usize = std::thread::scope(|scope| {
            let count = || (0..1_000).filter(|_| bucket.take(1, start).is_ok()).count();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(count)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(taken, 1_000);
    }

    proptest! {
        /// Against a bucket that counts tokens in exact fractions.
        #[test]
        fn it_is_a_token_bucket(
            interval in 1u64..1_000,
            burst in 1u32..50,
            steps in prop::collection::vec((0u64..3_000, 0u32..60), 1..200),
        ) {
            let rate = Rate::new(1, Duration::from_nanos(interval)).unwrap().with_burst(burst);
            let start = Instant::now();
            let bucket = Bucket::new(rate, start);
            // Tokens times the interval, so that a nanosecond brings one.
            let full = u64::from(burst) * interval;
            let (mut level, mut now) = (full, 0);
            for (pause, cost) in steps {
                now += pause;
                level = (level + pause).min(full);
                let price = u64::from(cost) * interval;
                let expected = if price <= level {
                    level -= price;
                    Ok(())
                } else if price > full {
                    Err(Refused { retry_after: None })
                } else {
                    Err(Refused { retry_after: Some(Duration::from_nanos(price - level)) })
                };
                prop_assert_eq!(bucket.take(cost, after(start, now)), expected);
            }
        }
    }
}
