//! How long round trips take.

use std::time::Duration;

/// What has been measured of round trips on a connection.
///
/// In whole microseconds; what is longer than 71 minutes counts as that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rtt {
    latest: u32,
    smoothed: u32,
    jitter: u32,
    min: u32,
}

impl Rtt {
    /// What is known after one more measurement.
    pub(super) fn after(known: Option<Self>, took: Duration) -> Self {
        let latest = u32::try_from(took.as_micros()).unwrap_or(u32::MAX);
        let Some(Self { smoothed, jitter, min, .. }) = known else {
            return Self { latest, smoothed: latest, jitter: latest / 2, min: latest };
        };
        // The weights of RFC 6298, section 2.
        let jitter = weigh(jitter, 3, smoothed.abs_diff(latest));
        Self { latest, smoothed: weigh(smoothed, 7, latest), jitter, min: min.min(latest) }
    }

    /// The last one.
    pub fn latest(&self) -> Duration {
        micros(self.latest)
    }

    /// A mean in which each counts for an eighth of those before it.
    pub fn smoothed(&self) -> Duration {
        micros(self.smoothed)
    }

    /// By how much they differ from the mean, smoothed likewise with a quarter.
    pub fn jitter(&self) -> Duration {
        micros(self.jitter)
    }

    /// The shortest of all.
    pub fn min(&self) -> Duration {
        micros(self.min)
    }
}

/// A mean of `weight` times the old and one time the new.
fn weigh(old: u32, weight: u64, new: u32) -> u32 {
    let mean = (u64::from(old) * weight + u64::from(new)) / (weight + 1);
    u32::try_from(mean).unwrap_or(u32::MAX)
}

fn micros(n: u32) -> Duration {
    Duration::from_micros(n.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_outlier_moves_the_mean_by_an_eighth_and_never_the_minimum() {
        let millis = Duration::from_millis;
        let first = Rtt::after(None, millis(80));
        assert_eq!((first.smoothed(), first.jitter(), first.min()), (millis(80), millis(40), millis(80)));
        let second = Rtt::after(Some(first), millis(160));
        assert_eq!((second.smoothed(), second.jitter()), (millis(90), millis(50)));
        assert_eq!((second.latest(), second.min()), (millis(160), millis(80)));
        let third = Rtt::after(Some(second), millis(10));
        assert_eq!((third.smoothed(), third.min()), (millis(80), millis(10)));
    }

    #[test]
    fn absurd_times_saturate() {
        let mut rtt = Rtt::after(None, Duration::MAX);
        for _ in 0..10 {
            rtt = Rtt::after(Some(rtt), Duration::MAX);
        }
        assert_eq!(rtt.smoothed(), Duration::from_micros(u32::MAX.into()));
        for _ in 0..500 {
            rtt = Rtt::after(Some(rtt), Duration::ZERO);
        }
        assert_eq!((rtt.min(), rtt.latest()), (Duration::ZERO, Duration::ZERO));
        assert!(rtt.smoothed() < Duration::from_micros(8), "{rtt:?}");
    }
}
