//! How long to wait before the next attempt.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    time::Duration,
};

/// Delays that grow, each with full jitter: the n-th is anything from nothing to `first` times two to the n, and no more
/// than `max`. Clients that have lost the same server spread over that time, where fixed delays would keep them together
/// (Marc Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015).
#[derive(Debug)]
pub(crate) struct Backoff {
    first: Duration,
    max: Duration,
    attempts: u32,
    random: Random,
}

impl Backoff {
    pub(crate) fn new(first: Duration, max: Duration) -> Self {
        Self { first, max: max.max(first), attempts: 0, random: Random::new() }
    }

    /// How many delays have been taken since it was reset.
    pub(crate) fn attempts(&self) -> u32 {
        self.attempts
    }

    /// The longest that the next delay may be.
    pub(crate) fn bound(&self) -> Duration {
        let factor = 1u32.checked_shl(self.attempts).unwrap_or(u32::MAX);
        self.first.saturating_mul(factor).min(self.max)
    }

    /// The next delay. One that the peer asks for is added to it, so that those who were told the same do not come back
    /// all at once.
    pub(crate) fn next(&mut self, asked: Option<Duration>) -> Duration {
        let delay = self.random.up_to(self.bound());
        self.attempts = self.attempts.saturating_add(1);
        asked.map_or(delay, |asked| delay.saturating_add(asked.min(MAX_ASKED))).min(FOR_EVER)
    }

    pub(crate) fn reset(&mut self) {
        self.attempts = 0;
    }
}

/// The longest that a peer's word counts: a wrong one, or one that somebody has put into its mouth, must not send a client away
/// for good.
pub(crate) const MAX_ASKED: Duration = Duration::from_secs(3_600);

/// What is longer is as good as for ever, and clocks can be added to it.
pub(super) const FOR_EVER: Duration = Duration::from_secs(86_400 * 365 * 30);

/// Random enough to spread load, and for nothing that has to be secret.
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn new() -> Self {
        // Each of these has keys of its own.
        Self(RandomState::new().build_hasher().finish())
    }

    /// A time from nothing to `bound`, evenly.
    fn up_to(&mut self, bound: Duration) -> Duration {
        // SplitMix64 (Steele, Lea, Flood, 2014).
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let fraction = ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64;
        Duration::try_from_secs_f64(bound.as_secs_f64() * fraction).unwrap_or(bound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Duration = Duration::from_millis(100);
    const MAX: Duration = Duration::from_secs(30);

    #[test]
    fn delays_grow_up_to_the_maximum_and_begin_anew_when_reset() {
        let mut backoff = Backoff::new(FIRST, MAX);
        for (attempt, bound) in
            [100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000].into_iter().enumerate()
        {
            assert_eq!(backoff.attempts(), attempt as u32);
            assert_eq!(backoff.bound(), Duration::from_millis(bound));
            assert!(backoff.next(None) <= Duration::from_millis(bound));
        }
        for _ in 0..100 {
            assert!(backoff.next(None) <= MAX);
        }
        backoff.reset();
        assert_eq!((backoff.attempts(), backoff.bound()), (0, FIRST));
    }

    #[test]
    fn delays_of_many_clients_are_spread_evenly_over_the_whole_time() {
        let mut tenths = [0; 10];
        for _ in 0..10_000 {
            let delay = Backoff::new(FIRST, MAX).next(None);
            tenths[(delay.as_micros() * 10 / (FIRST.as_micros() + 1)) as usize] += 1;
        }
        // A thousand are expected in each, with a standard deviation of 30.
        assert!(tenths.iter().all(|n| (700..1_300).contains(n)), "{tenths:?}");
    }

    #[test]
    fn what_the_peer_asks_for_is_waited_for_and_then_some_but_not_for_ever() {
        let asked = Duration::from_secs(30);
        let mut backoff = Backoff::new(FIRST, MAX);
        let delays: Vec<_> = (0..20).map(|_| backoff.next(Some(asked))).collect();
        assert!(delays.iter().all(|delay| (asked..=asked + MAX).contains(delay)));
        assert!(delays.windows(2).any(|two| two[0] != two[1]));
        assert!(backoff.next(Some(Duration::MAX)) <= MAX_ASKED + MAX);
    }

    #[test]
    fn extremes_do_not_overflow() {
        let mut backoff = Backoff::new(Duration::MAX, Duration::MAX);
        for _ in 0..100 {
            assert!(backoff.next(Some(Duration::MAX)) <= FOR_EVER);
        }
        let mut backoff = Backoff::new(Duration::ZERO, Duration::ZERO);
        assert_eq!(backoff.next(None), Duration::ZERO);
    }
}
