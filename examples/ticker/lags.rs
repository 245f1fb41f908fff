//! How late things are.

use std::{fmt, time::Duration};

use crate::percentile::percentile;

/// Durations, of which a few say what the others are like.
#[derive(Default)]
pub struct Lags(Vec<Duration>);

impl Lags {
    pub fn record(&mut self, lag: Duration) {
        self.0.push(lag);
    }

    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The one that so many percent are not longer than; zero if there are none.
    pub fn percentile(&self, percent: usize) -> Duration {
        percentile(&self.0, percent)
    }
}

impl fmt::Display for Lags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = |percent| self.percentile(percent).as_secs_f64() * 1e3;
        write!(f, "{:>8.1} ms {:>8.1} ms {:>8.1} ms", millis(50), millis(99), millis(100))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_durations_that_occurred() {
        let mut lags = Lags::default();
        assert_eq!(lags.percentile(50), Duration::ZERO);
        for millis in (1..=100).rev() {
            lags.record(Duration::from_millis(millis));
        }
        for percent in [1, 50, 99, 100] {
            assert_eq!(lags.percentile(percent), Duration::from_millis(percent as u64));
        }
        assert_eq!(lags.percentile(0), Duration::from_millis(1));
        assert_eq!(lags.to_string(), "    50.0 ms     99.0 ms    100.0 ms");
    }
}
