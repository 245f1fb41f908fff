//! What time it is at the peer.

use std::time::{Duration, Instant, SystemTime};

use tokio::sync::oneshot;

use super::{handle::Connection, shared::Shared};
use crate::status::CloseReason;

/// What was measured of the peer's clock by one round trip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClockSample {
    /// When the answer came, by this side's clock.
    pub at: Instant,
    /// What time it was at the peer then, if the way there and the way back took equally long. It is off by half of
    /// `round_trip` at the most.
    pub time: SystemTime,
    /// How long both ways took, without what the peer needed in between.
    pub round_trip: Duration,
}

impl ClockSample {
    /// Puts one together, for tests of what is made of them.
    pub const fn new(at: Instant, time: SystemTime, round_trip: Duration) -> Self {
        Self { at, time, round_trip }
    }

    /// From the four times of NTP: when the question left and the answer came here, and, in microseconds since 1970, when it came and
    /// left there. `None` if the peer's are beyond what can be represented.
    pub(crate) fn of(left: Instant, at: Instant, received: u64, sent: u64) -> Option<Self> {
        let needed = Duration::from_micros(sent.saturating_sub(received));
        let round_trip = at.saturating_duration_since(left).saturating_sub(needed);
        let time =
            SystemTime::UNIX_EPOCH.checked_add(Duration::from_micros(sent))?.checked_add(round_trip / 2)?;
        Some(Self { at, time, round_trip })
    }
}

impl Shared {
    /// Asks the driver for the peer's time. The answer never comes if the connection ends before.
    pub(crate) fn request_time(&self) -> oneshot::Receiver<ClockSample> {
        let (done, measured) = oneshot::channel();
        self.with(|state| {
            if state.closed().is_none() {
                state.commands.get_or_insert_default().times.push(done);
            }
        });
        measured
    }
}

impl Connection {
    /// Asks the peer what time it is. A peer that does not know the question never answers: bound it with a timeout.
    ///
    /// Cancel safe.
    ///
    /// # Errors
    /// Why the connection has ended, if it does before the answer.
    pub async fn sample_clock(&self) -> Result<ClockSample, CloseReason> {
        match self.shared.request_time().await {
            Ok(sample) => Ok(sample),
            Err(_) => Err(self.closed().await),
        }
    }
}
