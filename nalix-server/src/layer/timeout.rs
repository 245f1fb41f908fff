//! No call takes longer than a time.

use std::{
    task::{Context, Poll},
    time::Duration,
};

use nalix_core::{
    Code, Status,
    controller::{Call, Reply},
};
use tower_layer::Layer;
use tower_service::Service;

use super::LayerFuture;

/// Drops the handlers of calls that take longer, and answers `DeadlineExceeded`. As `timeout = ...` on every handler. A
/// caller's own deadline counts too, if it comes first.
#[derive(Debug, Clone, Copy)]
pub struct Timeout {
    limit: Duration,
}

impl Timeout {
    /// No call takes longer than this.
    pub fn new(limit: Duration) -> Self {
        Self { limit }
    }
}

impl<S> Layer<S> for Timeout {
    type Service = TimeoutService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        TimeoutService { inner, limit: self.limit }
    }
}

/// The service of [`Timeout`].
#[derive(Debug, Clone)]
pub struct TimeoutService<S> {
    inner: S,
    limit: Duration,
}

impl<S> Service<Call> for TimeoutService<S>
where
    S: Service<Call, Response = Reply>,
    S::Future: Send + 'static,
{
    type Response = Reply;
    type Error = S::Error;
    type Future = LayerFuture<S::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, call: Call) -> Self::Future {
        let (running, limit) = (self.inner.call(call), self.limit);
        Box::pin(async move {
            match tokio::time::timeout(limit, running).await {
                Ok(result) => result,
                Err(_) => Ok(Reply::from_status(Status::new(
                    Code::DeadlineExceeded,
                    "the handler has taken too long",
                ))),
            }
        })
    }
}
