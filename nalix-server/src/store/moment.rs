//! What time it is, by both clocks.

use std::time::{Duration, Instant, SystemTime};

/// A moment. Records say by the system's clock, which can be set, until when they are good; what has been put in is counted
/// by the other one from there on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    pub(super) at: Instant,
    pub(super) wall: SystemTime,
}

impl Moment {
    /// When it is `time` by the system's clock, if nobody sets that.
    pub(super) fn until(&self, time: SystemTime) -> Instant {
        self.after(time.duration_since(self.wall).unwrap_or_default())
    }

    /// Shortened to what the clock can tell.
    pub(super) fn after(&self, time: Duration) -> Instant {
        let far = || self.at.checked_add(FAR).unwrap_or(self.at);
        self.at.checked_add(time).unwrap_or_else(far)
    }
}

const FAR: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);
