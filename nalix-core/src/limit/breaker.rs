//! A circuit breaker.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// When a [`Breaker`] opens, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct BreakerOptions {
    /// How many failures in a row open it; at least 1. Default 5.
    pub failures: u32,
    /// How long it stays open before one call may try. Default 5 s.
    pub cool_down: Duration,
}

impl Default for BreakerOptions {
    fn default() -> Self {
        Self { failures: 5, cool_down: Duration::from_secs(5) }
    }
}

/// A circuit breaker (M. Nygard, *Release It!*): after so many failures in a row nothing passes for a while; then one call
/// may try, and what becomes of it decides for the others.
#[derive(Debug)]
pub struct Breaker {
    options: BreakerOptions,
    /// Whether it is closed and nothing has failed, so that there is nothing to look at behind the lock. Set under it.
    calm: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    failures: u32,
    /// Set while it is open.
    until: Option<Instant>,
    /// Who tries, while somebody does.
    trying: bool,
}

/// What a call that has passed must be followed by: [`Passed::done`]. A call that never ends, or is dropped, counts as a
/// failure only if it was the one that tried.
#[derive(Debug)]
#[must_use = "the breaker waits for the outcome"]
pub struct Passed<'a> {
    breaker: &'a Breaker,
    settled: bool,
    trying: bool,
}

impl Breaker {
    /// A closed one.
    pub fn new(options: BreakerOptions) -> Self {
        let options = BreakerOptions { failures: options.failures.max(1), ..options };
        let state = State { failures: 0, until: None, trying: false };
        Self { options, calm: AtomicBool::new(true), state: Mutex::new(state) }
    }

    /// Asks whether a call may pass.
    ///
    /// # Errors
    /// The time after which to try again, if it may not.
    pub fn pass(&self, now: Instant) -> Result<Passed<'_>, Duration> {
        self.enter(|| now).map(|trying| Passed { breaker: self, settled: false, trying })
    }

    /// As [`Breaker::pass`]: whether the call is the one that tries. [`Breaker::settle`] must follow.
    #[inline]
    pub(crate) fn enter(&self, now: impl FnOnce() -> Instant) -> Result<bool, Duration> {
        if self.calm.load(Ordering::Acquire) {
            return Ok(false);
        }
        let mut state = self.lock();
        let Some(until) = state.until else { return Ok(false) };
        let now = now();
        if now < until {
            return Err(until - now);
        }
        if state.trying {
            // Somebody else has just gone to see.
            return Err(self.options.cool_down);
        }
        state.trying = true;
        Ok(true)
    }

    /// Says how a call has ended; `None` if nobody knows.
    #[inline]
    pub(crate) fn settle(&self, trying: bool, success: Option<bool>, now: impl FnOnce() -> Instant) {
        // One that fails meanwhile has failed after this.
        if success == Some(true) && !trying && self.calm.load(Ordering::Acquire) {
            return;
        }
        let Some(success) = success else {
            if trying {
                // The next one may try, at once: nothing is known yet.
                self.lock().trying = false;
            }
            return;
        };
        let mut state = self.lock();
        if success {
            // A call from before it opened says nothing of how things are now.
            if trying || state.until.is_none() {
                *state = State { failures: 0, until: None, trying: false };
                self.calm.store(true, Ordering::Release);
            }
            return;
        }
        self.calm.store(false, Ordering::Release);
        state.failures = state.failures.saturating_add(1);
        if trying || (state.until.is_none() && state.failures >= self.options.failures) {
            state.trying = false;
            self.open(&mut state, now());
        }
    }

    /// A call has failed of which it is not known any more whether it has tried.
    pub(crate) fn fail(&self, now: Instant) {
        let mut state = self.lock();
        self.calm.store(false, Ordering::Release);
        state.failures = state.failures.saturating_add(1);
        let opens = match state.until {
            Some(until) => until <= now,
            None => state.failures >= self.options.failures,
        };
        if opens {
            self.open(&mut state, now);
        }
    }

    fn open(&self, state: &mut State, now: Instant) {
        // Without an end in sight it tries at once rather than never.
        state.until = Some(now.checked_add(self.options.cool_down).unwrap_or(now));
    }

    /// Whether calls are refused now.
    pub fn is_open(&self, now: Instant) -> bool {
        let state = self.lock();
        state.until.is_some_and(|until| now < until || state.trying)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Passed<'_> {
    /// Says how the call has ended.
    pub fn done(mut self, success: bool, now: Instant) {
        self.settled = true;
        self.breaker.settle(self.trying, Some(success), || now);
    }
}

impl Drop for Passed<'_> {
    fn drop(&mut self) {
        if !self.settled {
            self.breaker.settle(self.trying, None, Instant::now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn breaker() -> (Breaker, Instant) {
        (Breaker::new(BreakerOptions { failures: 3, cool_down: SECOND }), Instant::now())
    }

    fn fail(breaker: &Breaker, times: u32, now: Instant) {
        for _ in 0..times {
            breaker.pass(now).unwrap().done(false, now);
        }
    }

    #[test]
    fn it_opens_after_failures_in_a_row() {
        let (breaker, now) = breaker();
        fail(&breaker, 2, now);
        breaker.pass(now).unwrap().done(true, now);
        fail(&breaker, 2, now);
        assert!(!breaker.is_open(now));
        fail(&breaker, 1, now);
        assert_eq!(breaker.pass(now).unwrap_err(), SECOND);
        assert_eq!(breaker.pass(now + SECOND / 4).unwrap_err(), SECOND * 3 / 4);
    }

    #[test]
    fn one_call_tries_for_all() {
        let (breaker, start) = breaker();
        fail(&breaker, 3, start);
        let now = start + SECOND;
        let first = breaker.pass(now).unwrap();
        assert!(breaker.pass(now).is_err());
        first.done(false, now);
        assert_eq!(breaker.pass(now).unwrap_err(), SECOND);
        let now = now + SECOND;
        breaker.pass(now).unwrap().done(true, now);
        // Closed, and all failures are forgotten.
        fail(&breaker, 2, now);
        assert!(breaker.pass(now).is_ok());
    }

    #[test]
    fn a_call_that_is_dropped_while_it_tries_does_not_keep_it_open_for_ever() {
        let (breaker, start) = breaker();
        fail(&breaker, 3, start);
        let now = start + SECOND;
        drop(breaker.pass(now).unwrap());
        assert!(breaker.pass(now).is_ok());
    }

    #[test]
    fn a_failure_that_is_reported_later_opens_it_too() {
        let (breaker, start) = breaker();
        fail(&breaker, 2, start);
        breaker.fail(start);
        assert!(breaker.is_open(start));
        // While it is open, that changes nothing.
        breaker.fail(start + SECOND / 2);
        let now = start + SECOND;
        drop(breaker.pass(now).unwrap());
        breaker.fail(now);
        assert_eq!(breaker.pass(now).unwrap_err(), SECOND);
    }

    #[test]
    fn late_outcomes_of_calls_from_before_do_not_close_it() {
        let (breaker, now) = breaker();
        let slow = breaker.pass(now).unwrap();
        fail(&breaker, 3, now);
        slow.done(true, now);
        assert!(breaker.pass(now).is_err());
    }
}
