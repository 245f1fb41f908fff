//! What time it is at the server.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use nalix_core::{ClockSample, CloseReason, ConnectionId};
use thiserror::Error;

/// The server's time, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerTime {
    /// The time. It never goes back from one reading to the next.
    pub time: SystemTime,
    /// By how much it may be off, either way: half the round trip of the sample that it rests on, what clocks may drift
    /// since that, and what is still to be made up for, since time is never set back and small corrections are spread.
    pub error: Duration,
}

/// Why the server's time could not be learnt.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ClockError {
    /// The server does not answer the question: it is too slow, or too old.
    #[error("the server has not said what time it is")]
    Unanswered,
    /// The connection has ended.
    #[error("the connection has ended: {0}")]
    Closed(CloseReason),
}

/// An estimate of a clock far away, from round trips.
///
/// As NTP does (RFC 5905, section 10), it rests on that sample of the last few whose error is least: the round trip bounds what an
/// asymmetric way can do, and queues only ever make it longer. How much faster or slower the other clock goes is learnt from
/// samples that lie far apart. What is shown moves towards the estimate by going a little faster or slower, never back.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The connection that the samples are of: another may lead to another server.
    of: Option<ConnectionId>,
    samples: VecDeque<ClockSample>,
    /// An early good sample, to learn the drift from.
    anchor: Option<ClockSample>,
    /// By how much more than a second the other clock goes in a second of this one.
    drift: f64,
    shown: Option<Shown>,
    /// The latest time that was shown, in nanoseconds since 1970.
    last: i128,
}

/// What is shown from `base` on: it goes at `pace` until `until`, and as the estimate does from there.
#[derive(Debug, Clone, Copy)]
struct Shown {
    base: Instant,
    at: i128,
    pace: f64,
    until: Instant,
}

impl Clock {
    /// Takes a sample of this connection in.
    pub(crate) fn add(&self, of: ConnectionId, sample: ClockSample) {
        self.lock().add(of, sample);
    }

    /// The server's time at this instant, if there has been a sample.
    pub(crate) fn read(&self, at: Instant) -> Option<ServerTime> {
        self.lock().read(at)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn add(&mut self, of: ConnectionId, sample: ClockSample) {
        if self.of != Some(of) {
            (self.of, self.anchor, self.drift) = (Some(of), None, 0.0);
            self.samples.clear();
        }
        if self.samples.len() == SAMPLES {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
        self.learn_drift();
        self.steer(sample.at);
    }

    /// The sample whose error is least by now.
    fn best(&self, at: Instant) -> Option<ClockSample> {
        self.samples.iter().copied().min_by_key(|sample| error_of(sample, at))
    }

    fn learn_drift(&mut self) {
        let Some(best) = self.samples.back().and_then(|newest| self.best(newest.at)) else { return };
        let Some(anchor) = self.anchor else {
            self.anchor = Some(best);
            return;
        };
        let here = best.at.saturating_duration_since(anchor.at);
        if here < APART {
            if best.round_trip < anchor.round_trip {
                self.anchor = Some(best);
            }
            return;
        }
        let there = (nanos(best.time) - nanos(anchor.time)) as f64;
        let drift = there / here.as_nanos() as f64 - 1.0;
        let unsure = (best.round_trip + anchor.round_trip).as_secs_f64() / 2.0 / here.as_secs_f64();
        if drift.abs() > MAX_DRIFT + unsure {
            // No clock goes so wrong: it was set. What was before that says nothing any more.
            let newest = self.samples.pop_back();
            self.samples.clear();
            self.samples.extend(newest);
            (self.anchor, self.drift) = (newest, 0.0);
        } else if unsure < SURE {
            self.drift = drift.clamp(-MAX_DRIFT, MAX_DRIFT);
        }
    }

    /// What the server's time is at this instant, as far as the best sample tells, and by how much that may be off.
    fn estimate(&self, at: Instant) -> Option<(i128, Duration)> {
        let best = self.best(at)?;
        let since = signed(best.at, at);
        let time = nanos(best.time) + since + (since as f64 * self.drift) as i128;
        Some((time, error_of(&best, at)))
    }

    /// Turns what is shown towards the estimate.
    fn steer(&mut self, now: Instant) {
        let Some((target, _)) = self.estimate(now) else { return };
        let Some(at) = self.shown_at(now) else {
            self.shown = Some(Shown { base: now, at: target, pace: 1.0, until: now });
            return;
        };
        let off = target - at;
        if off > STEP {
            self.shown = Some(Shown { base: now, at: target, pace: 1.0, until: now });
            return;
        }
        // At half pace at the slowest, and at twice the pace at the fastest.
        let over = Duration::from_nanos(u64::try_from(2 * off.abs()).unwrap_or(u64::MAX)).max(SOFT);
        let pace = 1.0 + self.drift + off as f64 / over.as_nanos() as f64;
        let until = now.checked_add(over).unwrap_or(now);
        self.shown = Some(Shown { base: now, at, pace, until });
    }

    fn shown_at(&self, at: Instant) -> Option<i128> {
        let Shown { base, at: start, pace, until } = self.shown?;
        let steered = signed(base, at.min(until));
        let free = signed(until, at).max(0);
        let steered = (steered as f64 * pace) as i128;
        let free = free + (free as f64 * self.drift) as i128;
        Some((start + steered + free).max(self.last))
    }

    fn read(&mut self, at: Instant) -> Option<ServerTime> {
        let shown = self.shown_at(at)?;
        self.last = shown;
        let (target, error) = self.estimate(at)?;
        let off = u64::try_from((target - shown).unsigned_abs()).unwrap_or(u64::MAX);
        let since = Duration::from_nanos(u64::try_from(shown).unwrap_or_default());
        let time = SystemTime::UNIX_EPOCH.checked_add(since)?;
        Some(ServerTime { time, error: error.saturating_add(Duration::from_nanos(off)) })
    }
}

/// By how much a sample may be off at some time after it was taken.
fn error_of(sample: &ClockSample, at: Instant) -> Duration {
    let age = at.saturating_duration_since(sample.at);
    sample.round_trip / 2 + age.mul_f64(TOLERANCE)
}

/// Since 1970; what is before that is then.
fn nanos(time: SystemTime) -> i128 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i128::try_from(since.as_nanos()).unwrap_or(i128::MAX)
}

/// From one instant to another, in nanoseconds.
fn signed(from: Instant, to: Instant) -> i128 {
    let forth = to.saturating_duration_since(from).as_nanos();
    let back = from.saturating_duration_since(to).as_nanos();
    i128::try_from(forth).unwrap_or(i128::MAX) - i128::try_from(back).unwrap_or(i128::MAX)
}

/// How many samples are kept: as many as NTP's clock filter keeps.
const SAMPLES: usize = 8;
/// By how much clocks may differ in their pace that nothing is known of: 100 ppm is more than quartzes need.
const TOLERANCE: f64 = 100e-6;
/// Clocks that differ by more were set (RFC 5905 allows 500 ppm).
const MAX_DRIFT: f64 = 500e-6;
/// How sure a drift must be to be used.
const SURE: f64 = 20e-6;
/// How far apart the samples must be that a drift is learnt from.
const APART: Duration = Duration::from_secs(60);
/// Estimates that are ahead by more than this are shown at once, in nanoseconds.
const STEP: i128 = 1_000_000_000;
/// Over how long small corrections are spread.
const SOFT: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use nalix_core::link::faults::Random;

    use super::*;

    /// A clock far away that is off and goes wrong, seen over a way whose delays are random.
    struct World {
        start: Instant,
        now: Duration,
        offset: f64,
        pace: f64,
        random: Random,
    }

    impl World {
        fn new(seed: u64, pace: f64) -> Self {
            let start = Instant::now() + Duration::from_secs(3_600);
            Self { start, now: Duration::ZERO, offset: 1e9, pace, random: Random::new(seed) }
        }

        fn local(&self) -> Instant {
            self.start + self.now
        }

        fn truth(&self) -> f64 {
            self.offset + self.now.as_secs_f64() * self.pace
        }

        fn millis(&mut self, max: usize) -> Duration {
            Duration::from_micros(self.random.below(max * 1_000) as u64)
        }

        /// One round trip, slow in both ways now and then.
        fn sample(&mut self) -> ClockSample {
            let slow = if self.random.below(4) == 0 { 200 } else { 5 };
            let there = Duration::from_millis(10) + self.millis(slow);
            let back = Duration::from_millis(10) + self.millis(slow);
            self.now += there;
            let at_server = self.truth();
            self.now += back;
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs_f64(at_server) + (there + back) / 2;
            ClockSample::new(self.local(), time, there + back)
        }
    }

    fn secs(time: SystemTime) -> f64 {
        time.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64()
    }

    #[test]
    fn it_never_goes_back_and_is_never_off_by_more_than_it_says() {
        for seed in 0..40 {
            let pace = 1.0 + (seed as f64 - 20.0) * 4e-6;
            let (mut world, clock) = (World::new(seed, pace), Clock::default());
            assert_eq!(clock.read(world.local()), None);
            let mut last = 0.0;
            for round in 0..200 {
                clock.add(ConnectionId::new(1), world.sample());
                for _ in 0..10 {
                    let pause = world.millis(400);
                    world.now += pause;
                    let shown = clock.read(world.local()).unwrap();
                    let (time, off) = (secs(shown.time), secs(shown.time) - world.truth());
                    assert!(time >= last, "{seed} {round}");
                    assert!(off.abs() <= shown.error.as_secs_f64() + 1e-6, "{seed} {round}: {off} {shown:?}");
                    last = time;
                }
            }
            // It has learnt how the other clock goes: a minute without a sample matters little.
            world.now += Duration::from_secs(60);
            let off = secs(clock.read(world.local()).unwrap().time) - world.truth();
            assert!(off.abs() < 0.012, "{seed}: {off}");
        }
    }

    #[test]
    fn a_clock_that_is_set_forward_is_followed_at_once_and_one_that_is_set_back_is_waited_for() {
        for by in [3_600.0, 0.3, -0.3, -20.0] {
            let (mut world, clock) = (World::new(7, 1.0), Clock::default());
            for _ in 0..20 {
                clock.add(ConnectionId::new(1), world.sample());
                world.now += Duration::from_secs(10);
            }
            let before = secs(clock.read(world.local()).unwrap().time);
            world.offset += by;
            let mut last = before;
            for _ in 0..20 {
                clock.add(ConnectionId::new(1), world.sample());
                world.now += Duration::from_secs(10);
                let time = secs(clock.read(world.local()).unwrap().time);
                assert!(time >= last, "{by}");
                last = time;
            }
            let off = last - world.truth();
            assert!(off.abs() < 0.25, "{by}: {off}");
        }
    }

    /// Another server's clock has nothing to do with it.
    #[test]
    fn samples_of_another_connection_do_not_mix() {
        let (mut world, clock) = (World::new(3, 1.0), Clock::default());
        for _ in 0..8 {
            clock.add(ConnectionId::new(1), world.sample());
        }
        world.offset += 5.0;
        clock.add(ConnectionId::new(2), world.sample());
        let shown = clock.read(world.local()).unwrap();
        assert!((secs(shown.time) - world.truth()).abs() <= shown.error.as_secs_f64() + 1e-6);
    }
}
