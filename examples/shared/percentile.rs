//! What a few of many durations say of the others.

use std::time::Duration;

/// The duration that so many percent are not longer than; zero if there are none.
pub fn percentile(durations: &[Duration], percent: usize) -> Duration {
    let mut sorted = durations.to_vec();
    sorted.sort_unstable();
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}
