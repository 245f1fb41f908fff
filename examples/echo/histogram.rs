//! A histogram of latencies for a terminal.

use std::{fmt, time::Duration};

/// Counts durations in buckets, each of which reaches twice as far as the one before.
#[derive(Default)]
pub struct Histogram {
    /// Bucket `i` holds what took from 2^i to 2^(i+1) microseconds.
    buckets: [usize; 24],
    samples: Vec<Duration>,
}

impl Histogram {
    pub fn record(&mut self, latency: Duration) {
        let micros = latency.as_micros().max(1);
        let bucket = (micros.ilog2() as usize).min(self.buckets.len() - 1);
        self.buckets[bucket] += 1;
        self.samples.push(latency);
    }
}

impl fmt::Display for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let most = self.buckets.iter().max().copied().unwrap_or(0).max(1);
        let used = |&(_, &count): &(usize, &usize)| count > 0;
        let first = self.buckets.iter().enumerate().find(used).map_or(0, |(i, _)| i);
        let last = self.buckets.iter().enumerate().rfind(used).map_or(0, |(i, _)| i);
        for (i, count) in self.buckets.iter().enumerate().take(last + 1).skip(first) {
            let bar = "#".repeat((count * 40).div_ceil(most));
            writeln!(f, "  {:>7} - {:>7} us  {count:>6}  {bar}", 1_u32 << i, 1_u32 << (i + 1))?;
        }
        let mut sorted = self.samples.clone();
        sorted.sort_unstable();
        let percentile =
            |percent| sorted.get(sorted.len().saturating_sub(1) * percent / 100).copied().unwrap_or_default();
        let (p50, p99, longest) = (percentile(50), percentile(99), percentile(100));
        write!(f, "  p50 {p50:.1?}, p99 {p99:.1?}, longest {longest:.1?}")
    }
}
