//! All calls of a client together have a rate.

use nalix_core::{
    Status,
    controller::{Call, RateKey, RateLimiter, RatePolicy, too_often},
    limit::Rate,
};
use tokio::time::Instant;
use tower_layer::Layer;

use super::{Admit, Admitting};

/// Answers `ResourceExhausted` to calls that come too often, with the time to wait. As `rate = ...` on a handler, for the calls
/// of all handlers together.
#[derive(Debug, Clone, Copy)]
pub struct RateLimit {
    policy: RatePolicy,
}

impl RateLimit {
    /// This rate for each session; [`RateLimit::key`] sets who shares one.
    pub fn new(rate: Rate) -> Self {
        Self { policy: RatePolicy::new(rate) }
    }

    /// Sets who shares a rate.
    #[must_use]
    pub fn key(mut self, key: RateKey) -> Self {
        self.policy = self.policy.key(key);
        self
    }

    /// Sets how many clients have a bucket of their own at a time. Default 65,536; see [`RatePolicy::capacity`].
    #[must_use]
    pub fn capacity(mut self, capacity: usize) -> Self {
        self.policy = self.policy.capacity(capacity);
        self
    }
}

impl<S> Layer<S> for RateLimit {
    type Service = Admitting<S, RateLimiter>;

    fn layer(&self, inner: S) -> Self::Service {
        Admitting::new(inner, RateLimiter::new(self.policy, Instant::now().into_std()))
    }
}

impl Admit for RateLimiter {
    fn admit(&self, call: &Call) -> Result<(), Status> {
        let taken = self.take(call.context().connection(), Instant::now().into_std());
        taken.map_err(|refused| too_often(refused.retry_after))
    }
}
