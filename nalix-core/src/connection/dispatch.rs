//! Between the driver and the handlers: the router itself, or the tower layers around it.

use std::{
    fmt,
    task::{Context, Poll},
};

use tower_service::Service;

use crate::{
    controller::{Call, Outcome, Reply, Router},
    status::Status,
};

/// Runs calls. One instance belongs to one connection.
pub trait Dispatch: Send {
    /// Whether a call can be taken now. Asked only when there is one, since readiness may hold a permit.
    ///
    /// # Errors
    /// The status that the waiting call is answered with.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Status>>;

    /// Runs a call, after [`Dispatch::poll_ready`] has said that it can be taken.
    fn call(&mut self, call: Call) -> Outcome;

    /// Gives back what [`Dispatch::poll_ready`] has reserved or queued up for, since the call that it was asked for
    /// does not come: others may be waiting for it.
    fn release(&mut self) {}
}

impl Dispatch for Router {
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    #[inline]
    fn call(&mut self, call: Call) -> Outcome {
        self.dispatch(call)
    }
}

/// A tower service around the router.
pub struct Layered<S, E> {
    service: S,
    map_error: fn(E) -> Status,
}

impl<S, E> Layered<S, E> {
    /// Calls go to `service`; `map_error` says what the caller is told of its errors.
    pub fn new(service: S, map_error: fn(E) -> Status) -> Self {
        Self { service, map_error }
    }
}

impl<S: fmt::Debug, E> fmt::Debug for Layered<S, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Layered").field("service", &self.service).finish_non_exhaustive()
    }
}

impl<S> Dispatch for Layered<S, S::Error>
where
    S: Service<Call, Response = Reply> + Clone + Send,
    S::Future: Send + 'static,
    S::Error: 'static,
{
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Status>> {
        self.service.poll_ready(cx).map_err(self.map_error)
    }

    fn call(&mut self, call: Call) -> Outcome {
        let map_error = self.map_error;
        let future = self.service.call(call);
        Outcome::Pending(Box::pin(async move {
            match future.await {
                Ok(reply) => reply,
                Err(error) => Reply::from_status(map_error(error)),
            }
        }))
    }

    fn release(&mut self) {
        // A clone never inherits readiness, nor a place in a queue for it.
        self.service = self.service.clone();
    }
}

/// What a connection serves: the table that says where packets go, and what runs them.
pub struct Serving {
    pub(super) router: Router,
    pub(super) dispatch: Box<dyn Dispatch>,
}

impl fmt::Debug for Serving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Serving").field("router", &self.router).finish_non_exhaustive()
    }
}

impl Serving {
    /// Serves the router's handlers, through `dispatch`.
    pub fn new(router: Router, dispatch: Box<dyn Dispatch>) -> Self {
        Self { router, dispatch }
    }
}

impl From<Router> for Serving {
    fn from(router: Router) -> Self {
        Self { dispatch: Box::new(router.clone()), router }
    }
}
