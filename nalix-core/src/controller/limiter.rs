//! Rates, by who calls.

use std::{sync::OnceLock, time::Instant};

use super::policy::{RateKey, RatePolicy};
use crate::{
    Connection, ConnectionId,
    handshake::SessionId,
    limit::{AddressKey, KeyedLimiter, Refused},
};

/// A [`RatePolicy`] and the buckets that keep it.
#[derive(Debug)]
pub struct RateLimiter {
    policy: RatePolicy,
    start: Instant,
    /// Made when it is first needed: buckets of connections are usually kept with those.
    buckets: OnceLock<KeyedLimiter<Caller>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Caller {
    Connection(ConnectionId),
    Session(SessionId),
    Identity(u64),
    Address(AddressKey),
}

impl RateLimiter {
    /// Full buckets. Times before `start` count as `start`.
    pub fn new(policy: RatePolicy, start: Instant) -> Self {
        Self { policy, start, buckets: OnceLock::new() }
    }

    /// Takes what a call costs out of its caller's bucket.
    ///
    /// # Errors
    /// [`Refused`] if there is not as much.
    pub fn take(&self, connection: &Connection, now: Instant) -> Result<(), Refused> {
        let RatePolicy { rate, cost, key, capacity } = self.policy;
        let buckets = self.buckets.get_or_init(|| KeyedLimiter::new(rate, capacity, self.start));
        buckets.take(Caller::of(key, connection), cost, now)
    }

    /// What it keeps.
    pub fn policy(&self) -> RatePolicy {
        self.policy
    }

    /// Whether the bucket of a connection is its own, so that it can be kept with it.
    #[inline]
    pub(super) fn is_own(&self, connection: &Connection) -> bool {
        match self.policy.key {
            RateKey::Session => connection.resumption().is_none(),
            RateKey::Identity => connection.identity().is_none() && connection.peer_addr().is_none(),
            RateKey::Address => connection.peer_addr().is_none(),
        }
    }
}

impl Caller {
    fn of(key: RateKey, connection: &Connection) -> Self {
        let alone = Caller::Connection(connection.id());
        match key {
            RateKey::Session => match connection.resumption() {
                Some(resumption) => Caller::Session(resumption.session_id()),
                None => alone,
            },
            RateKey::Identity => match connection.identity() {
                Some(identity) => Caller::Identity(identity),
                None => Caller::of(RateKey::Address, connection),
            },
            RateKey::Address => match connection.peer_addr() {
                Some(address) => Caller::Address(AddressKey::of(address.ip())),
                None => alone,
            },
        }
    }
}
