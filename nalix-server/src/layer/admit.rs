//! The service of layers that either pass a call on or refuse it, without waiting.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use nalix_core::{
    Status,
    controller::{Call, Reply},
};
use tower_service::Service;

/// Decides about calls by what is known before they are decoded.
pub trait Admit: Send + Sync + 'static {
    /// Lets the call pass, or says how it is answered.
    ///
    /// # Errors
    /// The answer.
    fn admit(&self, call: &Call) -> Result<(), Status>;
}

/// Passes on the calls that are admitted. Clones share what decides.
#[derive(Debug)]
pub struct Admitting<S, A> {
    inner: S,
    admit: Arc<A>,
}

impl<S, A> Admitting<S, A> {
    /// Asks `admit` before `inner` is called.
    pub fn new(inner: S, admit: A) -> Self {
        Self { inner, admit: Arc::new(admit) }
    }
}

impl<S: Clone, A> Clone for Admitting<S, A> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), admit: Arc::clone(&self.admit) }
    }
}

impl<S, A> Service<Call> for Admitting<S, A>
where
    S: Service<Call, Response = Reply> + Clone,
    A: Admit,
{
    type Response = Reply;
    type Error = S::Error;
    type Future = Admitted<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, call: Call) -> Self::Future {
        match self.admit.admit(&call) {
            Ok(()) => Admitted(State::Running(Box::pin(self.inner.call(call)))),
            Err(status) => {
                // What the inner one has reserved is not used, and a clone never inherits it.
                self.inner = self.inner.clone();
                Admitted(State::Refused(Some(call.refuse(status))))
            }
        }
    }
}

/// The future of [`Admitting`].
pub struct Admitted<F>(State<F>);

enum State<F> {
    Refused(Option<Reply>),
    Running(Pin<Box<F>>),
}

impl<F> fmt::Debug for Admitted<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admitted").finish_non_exhaustive()
    }
}

impl<F: Future<Output = Result<Reply, E>>, E> Future for Admitted<F> {
    type Output = Result<Reply, E>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            State::Running(future) => future.as_mut().poll(cx),
            State::Refused(reply) => match reply.take() {
                Some(reply) => Poll::Ready(Ok(reply)),
                None => Poll::Pending,
            },
        }
    }
}
