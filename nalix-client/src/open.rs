//! Calls with a stream, an upload, or both, over whatever connection there is.

use std::{
    fmt,
    future::{Future, IntoFuture},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use nalix_core::{CloseCode, CloseReason, Opens, Packet, RequestError};

use crate::{
    reconnect::{LineOf, Stop, Wait},
    while_offline::WhileOffline,
};

/// A call with streams that has not been made yet. Await it, or set its options first.
///
/// It is done when the packet is in the outbox, and does not wait for the server: whether that serves it is told where the
/// answer or the first item is awaited. There is no default timeout, for streams last as long as they last.
///
/// With as many streams open as the `stream_budget` option allows, one more fails with
/// [`Code::ResourceExhausted`](crate::Code); nothing is sent then.
#[must_use = "nothing is sent until it is awaited"]
pub struct OpenBuilder<P, O> {
    inner: nalix_core::OpenBuilder<P, O>,
    while_offline: WhileOffline,
    /// Whether there was a connection when it was made.
    online: bool,
}

impl<P: Packet, O> fmt::Debug for OpenBuilder<P, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl<P: Packet, O: Opens<P>> OpenBuilder<P, O> {
    pub(crate) fn new(inner: nalix_core::OpenBuilder<P, O>, online: bool) -> Self {
        Self { inner, while_offline: WhileOffline::Wait, online }
    }

    /// How long the whole conversation may take, from the first poll on. It travels along as remaining time, and the server
    /// stops the handler when it has passed.
    ///
    /// Zero fails with [`RequestError::Timeout`] before anything is sent.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.inner = self.inner.timeout(timeout);
        self
    }

    /// When the conversation ends at the latest. Of this and a timeout, the earlier counts.
    pub fn deadline(mut self, deadline: std::time::Instant) -> Self {
        self.inner = self.inner.deadline(deadline);
        self
    }

    /// Whether it waits while the session has no connection. Default [`WhileOffline::Wait`].
    pub fn while_offline(mut self, while_offline: WhileOffline) -> Self {
        self.while_offline = while_offline;
        self
    }
}

impl<P: Packet, O: Opens<P>> IntoFuture for OpenBuilder<P, O> {
    type Output = Result<O, RequestError<O::Error>>;
    type IntoFuture = OpenFuture<P, O>;

    fn into_future(self) -> OpenFuture<P, O> {
        let Self { inner, while_offline, online } = self;
        OpenFuture { inner: inner.into_future(), while_offline, online, wait: None }
    }
}

/// The future of a call with streams: done when its packet is in the outbox.
///
/// Cancel safe: dropped before it is done, it has sent nothing. Polled again after it has resolved, it stays pending.
#[must_use = "futures do nothing unless they are awaited"]
pub struct OpenFuture<P, O> {
    inner: nalix_core::OpenFuture<P, O>,
    while_offline: WhileOffline,
    /// Whether there is a connection to begin with.
    online: bool,
    wait: Option<Wait>,
}

impl<P: Packet, O> fmt::Debug for OpenFuture<P, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

// Nothing in it is pinned.
impl<P, O> Unpin for OpenFuture<P, O> {}

impl<P: Packet, O: Opens<P>> Future for OpenFuture<P, O> {
    type Output = Result<O, RequestError<O::Error>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        loop {
            if let Some(wait) = &mut this.wait {
                let Poll::Ready(routed) = wait.poll(cx) else { return Poll::Pending };
                this.wait = None;
                match routed {
                    Ok(connection) => drop(this.inner.__restart(connection)),
                    Err(stop) => return Poll::Ready(Err(failed(stop))),
                }
            }
            let online = std::mem::replace(&mut this.online, true);
            let closed = match online {
                true => match Pin::new(&mut this.inner).poll(cx) {
                    Poll::Ready(Err(RequestError::Closed(reason))) => reason,
                    done => return done,
                },
                // The connection may live on without a link, and would take it.
                false => {
                    this.inner.__fix_deadline();
                    CloseReason::new(CloseCode::Lost, "")
                }
            };
            let connection = this.inner.__connection();
            let Some(line) = LineOf::of(connection).filter(|line| line.reconnects()) else {
                return Poll::Ready(Err(RequestError::Closed(closed)));
            };
            let waits = this.while_offline == WhileOffline::Wait;
            match line.reroute(
                online.then_some(connection),
                waits,
                this.inner.__size_hint(),
                this.inner.__deadline(),
            ) {
                Ok(wait) => this.wait = Some(wait),
                Err(stop) => return Poll::Ready(Err(failed(stop))),
            }
        }
    }
}

fn failed<E>(stop: Stop) -> RequestError<E> {
    match stop {
        Stop::Over(reason) => RequestError::Closed(reason),
        Stop::Offline(offline) => RequestError::Offline(offline),
        Stop::Late => RequestError::Timeout,
    }
}
