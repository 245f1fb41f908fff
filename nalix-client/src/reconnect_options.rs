//! What can be set about coming back.

use std::time::Duration;

/// How a session comes back when its connection is lost, and what waits meanwhile: `ClientBuilder::reconnect`.
///
/// ```
/// # use std::time::Duration;
/// # use nalix_client::{Client, ReconnectOptions};
/// let reconnect = ReconnectOptions::default().first_connect(true).max_delay(Duration::from_secs(5));
/// let builder = Client::builder("tcp://127.0.0.1:7777").reconnect(reconnect);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReconnectOptions {
    /// Whether a session that loses its connection looks for another. Default `true`; otherwise it is over then.
    pub enabled: bool,
    /// Whether `connect` tries again as a session does, instead of failing when there is no server at once. Default
    /// `false`.
    pub first_connect: bool,
    /// The longest that the delay before the first attempt may be; it is drawn evenly from nothing to this. For each further
    /// attempt it is twice as long. Default 100 ms, at least 1 ms.
    ///
    /// Too low lets all clients of a server that restarts come at once; too high keeps them waiting after each small cut.
    pub first_delay: Duration,
    /// The longest that any delay may be, besides what the server asks for. Default 30 s.
    ///
    /// Too low overwhelms a server that comes back; too high finds it late.
    pub max_delay: Duration,
    /// How long a connection must have lasted for the delays to begin anew after it. Default 10 s.
    ///
    /// Too low lets a server that drops everybody at once be asked again and again; too high makes a client wait for long
    /// whose connection is cut once in a while.
    pub stable_after: Duration,
    /// After how many attempts without a stable connection the session gives up. Default the largest number, which means
    /// never. Zero is as good as no reconnect.
    pub max_attempts: u32,
    /// How many calls and sends may wait for a connection. Default 1,024; zero: none, they fail at once.
    pub offline_calls: usize,
    /// How many bytes of packets may wait for a connection, as far as their sizes are known before they are encoded. Default
    /// 1 MiB. One that is alone may be longer.
    pub offline_bytes: usize,
    /// How long a call or a send may wait for a connection; what it waits counts for its timeout, too. Default 30 s. Zero:
    /// they fail at once.
    pub offline_age: Duration,
    /// How many calls with a [`Retry`](crate::Retry) may fail before no more are retried: a call is, while more than half of
    /// this is left. Each failure takes one, and each success gives a tenth back. Default 20. Zero: none are retried. It keeps
    /// the load that retries add to a server in trouble near a tenth.
    pub retry_budget: u32,
}

impl Default for ReconnectOptions {
    fn default() -> Self {
        Self {
            enabled: true,
            first_connect: false,
            first_delay: Duration::from_millis(100),
            max_delay: Duration::from_secs(30),
            stable_after: Duration::from_secs(10),
            max_attempts: u32::MAX,
            offline_calls: 1_024,
            offline_bytes: 1 << 20,
            offline_age: Duration::from_secs(30),
            retry_budget: 20,
        }
    }
}

impl ReconnectOptions {
    /// The same options with every number inside its range.
    #[must_use]
    pub(crate) fn in_range(mut self) -> Self {
        self.first_delay = self.first_delay.max(MIN_DELAY);
        self.max_delay = self.max_delay.max(self.first_delay);
        self
    }

    /// A session that ends with its connection.
    pub(crate) fn off() -> Self {
        Self { enabled: false, ..Self::default() }
    }
}

/// Delays of nothing would be a loop.
const MIN_DELAY: Duration = Duration::from_millis(1);

#[cfg(feature = "serde")]
nalix_core::__section!(ReconnectOptions {
    enabled: |raw| nalix_core::config::flag(raw),
    first_connect: |raw| nalix_core::config::flag(raw),
    first_delay: |raw| nalix_core::config::time(raw, MIN_DELAY),
    max_delay: |raw| nalix_core::config::time(raw, Duration::ZERO),
    stable_after: |raw| nalix_core::config::time(raw, Duration::ZERO),
    max_attempts: |raw| nalix_core::config::number(raw, 0, u32::MAX.into()).map(|n| n as u32),
    offline_calls: |raw| nalix_core::config::size(raw, 0, usize::MAX),
    offline_bytes: |raw| nalix_core::config::size(raw, 0, usize::MAX),
    offline_age: |raw| nalix_core::config::time(raw, Duration::ZERO),
    retry_budget: |raw| nalix_core::config::number(raw, 0, u32::MAX.into()).map(|n| n as u32),
});

nalix_core::__setters!(ReconnectOptions {
    enabled: bool,
    first_connect: bool,
    first_delay: Duration,
    max_delay: Duration,
    stable_after: Duration,
    max_attempts: u32,
    offline_calls: usize,
    offline_bytes: usize,
    offline_age: Duration,
    retry_budget: u32,
});

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever is set, the others stay as they were.
    #[test]
    fn each_setter_sets_its_own_field_and_no_other() {
        let secs = Duration::from_secs;
        let chained = ReconnectOptions::default()
            .enabled(false)
            .first_connect(true)
            .first_delay(secs(1))
            .max_delay(secs(2))
            .stable_after(secs(3))
            .max_attempts(4)
            .offline_calls(5)
            .offline_bytes(6)
            .offline_age(secs(7))
            .retry_budget(8);
        let expected = ReconnectOptions {
            enabled: false,
            first_connect: true,
            first_delay: secs(1),
            max_delay: secs(2),
            stable_after: secs(3),
            max_attempts: 4,
            offline_calls: 5,
            offline_bytes: 6,
            offline_age: secs(7),
            retry_budget: 8,
        };
        assert_eq!(chained, expected);
    }

    #[test]
    fn delays_are_brought_into_range() {
        let options = ReconnectOptions::default().first_delay(Duration::ZERO).max_delay(Duration::ZERO);
        let options = options.in_range();
        assert_eq!((options.first_delay, options.max_delay), (MIN_DELAY, MIN_DELAY));
    }
}
