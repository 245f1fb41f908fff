//! So many calls at once, and so many more who wait.

use std::{
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use nalix_core::{
    controller::{Call, ConcurrencyPolicy, Reply, crowded},
    limit::Places,
};
use tower_layer::Layer;
use tower_service::Service;

use super::LayerFuture;

/// Bounds how many calls run at once, on all connections together, and how many wait; answers `ResourceExhausted` to the
/// others. As `concurrency = ...` on a handler, for the calls of all handlers together.
///
/// A call that waits can be cancelled, and is stopped at its deadline.
#[derive(Debug, Clone, Copy)]
pub struct Concurrency {
    policy: ConcurrencyPolicy,
}

impl Concurrency {
    /// So many at once, at least one, and 64 more who wait.
    pub fn new(at_once: usize) -> Self {
        Self { policy: ConcurrencyPolicy::new(at_once) }
    }

    /// Sets how many may wait.
    #[must_use]
    pub fn queue(mut self, queue: usize) -> Self {
        self.policy = self.policy.queue(queue);
        self
    }

    /// Sets how long one may wait. Without this it is as long as its caller does.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.policy = self.policy.wait(wait);
        self
    }
}

impl<S> Layer<S> for Concurrency {
    type Service = ConcurrencyService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        let ConcurrencyPolicy { at_once, queue, wait, .. } = self.policy;
        ConcurrencyService { inner, places: Arc::new(Places::new(at_once, queue)), wait }
    }
}

/// The service of [`Concurrency`]. Clones share the places.
#[derive(Debug, Clone)]
pub struct ConcurrencyService<S> {
    inner: S,
    places: Arc<Places>,
    wait: Option<Duration>,
}

impl<S> Service<Call> for ConcurrencyService<S>
where
    S: Service<Call, Response = Reply> + Clone + Send + 'static,
    S::Future: Send + 'static,
{
    type Response = Reply;
    type Error = S::Error;
    type Future = LayerFuture<S::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, call: Call) -> Self::Future {
        if let Some(place) = self.places.try_enter() {
            let running = self.inner.call(call);
            return Box::pin(async move {
                let _place = place;
                running.await
            });
        }
        // The one that is ready goes along, since its clone is not.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let (places, wait) = (Arc::clone(&self.places), self.wait);
        Box::pin(async move {
            let entered = match wait {
                Some(wait) => match tokio::time::timeout(wait, places.enter()).await {
                    Ok(entered) => entered.ok(),
                    Err(_) => None,
                },
                None => places.enter().await.ok(),
            };
            match entered {
                Some(_place) => inner.call(call).await,
                None => Ok(call.refuse(crowded())),
            }
        })
    }
}
