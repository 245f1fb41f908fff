//! How long answers take.

use std::{fmt, time::Duration};

use crate::percentile::percentile;

/// Durations, of which a few say what the others are like.
#[derive(Default)]
pub struct Latencies(Vec<Duration>);

impl Latencies {
    pub fn record(&mut self, latency: Duration) {
        self.0.push(latency);
    }

    /// The one that so many percent are not longer than; zero if there are none.
    pub fn percentile(&self, percent: usize) -> Duration {
        percentile(&self.0, percent)
    }
}

impl fmt::Display for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = |percent| self.percentile(percent).as_secs_f64() * 1e3;
        let (p50, p99, longest) = (millis(50), millis(99), millis(100));
        write!(f, "{} small calls, p50 {p50:.2} ms, p99 {p99:.2} ms, longest {longest:.2} ms", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_durations_that_occurred() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.percentile(50), Duration::ZERO);
        for micros in (1..=100).rev() {
            latencies.record(Duration::from_micros(10 * micros));
        }
        for percent in [1, 50, 99, 100] {
            assert_eq!(latencies.percentile(percent), Duration::from_micros(10 * percent as u64));
        }
        assert_eq!(latencies.percentile(0), Duration::from_micros(10));
        assert_eq!(latencies.to_string(), "100 small calls, p50 0.50 ms, p99 0.99 ms, longest 1.00 ms");
    }
}
