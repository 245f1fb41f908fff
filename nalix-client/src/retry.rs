//! Calls that are made again.

use std::{sync::Mutex, sync::PoisonError, time::Duration};

/// How often a call is made again that has failed, and when: [`RequestBuilder::retry`](crate::RequestBuilder::retry).
///
/// It is made again only if it is known not to have run, or if its packet is marked `idempotent`. Of failures, those count that
/// time can heal: the server advises to try again or is unavailable, the connection is lost, an attempt takes longer than
/// [`Retry::per_try`]. Before each further attempt it waits for a time that grows, with full jitter, or as long as the server
/// asks for. The timeout of the call counts for all attempts together, and no attempt is made that could only begin when
/// it has passed.
///
/// A session has a budget for retries (the option
/// [`retry_budget`](field@crate::ReconnectOptions::retry_budget)), so that clients of a server in trouble do not add to it.
///
/// ```no_run
/// # use nalix_client::{Retry, Session, packet};
/// # use std::time::Duration;
/// #[packet(opcode = 0x1001, reply = u64, idempotent)]
/// struct Count;
///
/// # async fn f(session: Session) -> Result<(), Box<dyn std::error::Error>> {
/// let n = session.request(Count).retry(3).await?;
/// let patient = Retry::new(5).per_try(Duration::from_millis(200));
/// let n = session.request(Count).retry(patient).timeout(Duration::from_secs(2)).await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "it is given to `RequestBuilder::retry`"]
pub struct Retry {
    pub(crate) times: u32,
    pub(crate) per_try: Option<Duration>,
    pub(crate) first_delay: Duration,
    pub(crate) max_delay: Duration,
}

impl Retry {
    /// At most so many times after the first, with delays of up to 50 ms at first and up to 2 s later.
    pub const fn new(times: u32) -> Self {
        Self {
            times,
            per_try: None,
            first_delay: Duration::from_millis(50),
            max_delay: Duration::from_secs(2),
        }
    }

    /// How long one attempt may take. An attempt that takes longer is given up, as a call is that times out, and made again if
    /// the packet is idempotent. Without it, only the timeout of the call counts.
    pub const fn per_try(mut self, timeout: Duration) -> Self {
        self.per_try = Some(timeout);
        self
    }

    /// The longest that the first delay and that any may be.
    pub const fn delays(mut self, first: Duration, max: Duration) -> Self {
        (self.first_delay, self.max_delay) = (first, max);
        self
    }
}

/// That many times.
impl From<u32> for Retry {
    fn from(times: u32) -> Self {
        Self::new(times)
    }
}

/// What may be spent on retries: the retry throttling of gRPC (proposal A6, "Throttling Retry Attempts and Hedged RPCs"), with a
/// token ratio of a tenth.
#[derive(Debug)]
pub(crate) struct Budget {
    /// In tenths of a token.
    max: u64,
    left: Mutex<u64>,
}

impl Budget {
    pub(crate) fn new(tokens: u32) -> Self {
        let max = u64::from(tokens) * 10;
        Self { max, left: Mutex::new(max) }
    }

    /// A call has failed. Returns whether it may be made again.
    pub(crate) fn spend(&self) -> bool {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        *left = left.saturating_sub(10);
        *left > self.max / 2
    }

    /// A call has succeeded.
    pub(crate) fn earn(&self) {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        *left = (*left + 1).min(self.max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_stops_retries_when_half_of_it_is_gone_and_successes_bring_it_back() {
        let budget = Budget::new(20);
        let allowed = (0..100).filter(|_| budget.spend()).count();
        assert_eq!(allowed, 9);
        (0..100).for_each(|_| budget.earn());
        assert!(!budget.spend(), "half of it is not more than half");
        (0..21).for_each(|_| budget.earn());
        assert!(budget.spend());
        (0..10_000).for_each(|_| budget.earn());
        assert_eq!((0..100).filter(|_| budget.spend()).count(), 9, "it does not grow beyond its size");
    }

    #[test]
    fn nothing_is_retried_without_a_budget() {
        let budget = Budget::new(0);
        budget.earn();
        assert!(!budget.spend());
    }

    #[test]
    fn under_lasting_failure_retries_are_a_tenth_of_calls_that_succeed() {
        let budget = Budget::new(20);
        while budget.spend() {}
        let mut retries = 0;
        for _ in 0..10_000 {
            budget.earn();
            retries += u32::from(budget.max / 2 + 10 < *budget.left.lock().unwrap() && budget.spend());
        }
        assert!((900..=1_000).contains(&retries), "{retries}");
    }
}
