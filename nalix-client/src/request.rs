//! A typed call to the server, over whatever connection there is.

use std::{
    fmt,
    future::{Future, IntoFuture},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use nalix_core::{Code, Request, RequestError, Response};
use tokio::time::{Instant, Sleep, sleep};

use crate::{
    Retry,
    reconnect::{Backoff, Line, LineOf, Stop, Wait},
    while_offline::WhileOffline,
};

/// A request that has not been sent yet. Await it, or set its options first.
#[must_use = "a request is sent when it is awaited"]
pub struct RequestBuilder<P: Request> {
    inner: nalix_core::RequestBuilder<P>,
    while_offline: WhileOffline,
    /// Boxed, since it is seldom there and would be moved about.
    retry: Option<Box<Retry>>,
    /// Whether there was a connection when it was made.
    online: bool,
}

impl<P: Request> fmt::Debug for RequestBuilder<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestBuilder")
            .field("packet", &P::NAME)
            .field("while_offline", &self.while_offline)
            .field("retry", &self.retry)
            .finish_non_exhaustive()
    }
}

impl<P: Request> RequestBuilder<P> {
    #[inline]
    pub(crate) fn new(inner: nalix_core::RequestBuilder<P>, online: bool) -> Self {
        Self { inner, while_offline: WhileOffline::Wait, retry: None, online }
    }

    /// How long to wait for the answer, from the first poll on, and for a connection if there is none. It travels with the
    /// request as remaining time, and the server stops the handler when it has passed. The default is the session's.
    ///
    /// Zero fails with [`RequestError::Timeout`] before anything is sent.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.inner = self.inner.timeout(timeout);
        self
    }

    /// Waits until this instant at the most, whenever it is first polled. It takes the place of the default timeout; of
    /// a deadline and a timeout that is set after it, the earlier counts.
    pub fn deadline(mut self, deadline: std::time::Instant) -> Self {
        self.inner = self.inner.deadline(deadline);
        self
    }

    /// Waits for as long as the session lives. The server may still have a limit of its own.
    pub fn no_timeout(mut self) -> Self {
        self.inner = self.inner.no_timeout();
        self
    }

    /// Lets a key and a value travel with the request: see [`nalix_core::RequestBuilder::metadata`].
    ///
    /// ```no_run
    /// # use nalix_client::{Session, packet};
    /// # #[packet(opcode = 0x1001, reply = u64)]
    /// # struct Count;
    /// # async fn f(session: Session) -> Result<(), Box<dyn std::error::Error>> {
    /// let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    /// let n = session.request(Count).metadata("traceparent", parent).await?;
    /// # Ok(()) }
    /// ```
    pub fn metadata(mut self, key: &str, value: impl AsRef<[u8]>) -> Self {
        self.inner = self.inner.metadata(key, value);
        self
    }

    /// Whether it waits while the session has no connection. Default [`WhileOffline::Wait`].
    pub fn while_offline(mut self, while_offline: WhileOffline) -> Self {
        self.while_offline = while_offline;
        self
    }

    /// Makes the call again if it fails, so often or as a [`Retry`] says. Nothing is made again that may have run, unless
    /// its packet is marked `idempotent`.
    pub fn retry(mut self, retry: impl Into<Retry>) -> Self {
        self.retry = Some(Box::new(retry.into()));
        self
    }

    /// Resolves to the reply, or to the error, with the metadata that the server has attached to it: a [`Response`] of
    /// either. Without this, what comes along is dropped.
    ///
    /// ```no_run
    /// # use nalix_client::{Session, packet};
    /// # #[packet(opcode = 0x1001, reply = u64)]
    /// # struct Count;
    /// # async fn f(session: Session) -> Result<(), Box<dyn std::error::Error>> {
    /// let count = session.request(Count).response().await?;
    /// if count.metadata("cache") == Some(b"hit") {
    ///     println!("{} from the cache", *count);
    /// }
    /// # Ok(()) }
    /// ```
    pub fn response(self) -> ResponseBuilder<P> {
        ResponseBuilder { request: self }
    }
}

impl<P: Request> IntoFuture for RequestBuilder<P> {
    type Output = Result<P::Reply, RequestError<P::Error>>;
    type IntoFuture = RequestFuture<P>;

    #[inline]
    fn into_future(self) -> RequestFuture<P> {
        let mut inner = self.inner.into_future();
        if P::IDEMPOTENT || self.retry.is_some() {
            inner.__keep();
        } else {
            inner.__keep_small();
        }
        let mut again = self.retry.map(|retry| Box::new(Again::with(Some(*retry))));
        if !self.online {
            // The connection may live on without a link, and would take it.
            again.get_or_insert_with(|| Box::new(Again::with(None))).next = Next::Start;
        }
        RequestFuture { inner, while_offline: self.while_offline, again }
    }
}

/// A request whose answer is wanted with its metadata; see [`RequestBuilder::response`]. Await it.
#[derive(Debug)]
#[must_use = "a request is sent when it is awaited"]
pub struct ResponseBuilder<P: Request> {
    request: RequestBuilder<P>,
}

impl<P: Request> IntoFuture for ResponseBuilder<P> {
    type Output = Answered<P>;
    type IntoFuture = ResponseFuture<P>;

    fn into_future(self) -> ResponseFuture<P> {
        ResponseFuture { request: self.request.into_future() }
    }
}

/// The future of a request whose answer is wanted with its metadata. Cancel safe as [`RequestFuture`] is.
#[derive(Debug)]
#[must_use = "futures do nothing unless they are awaited"]
pub struct ResponseFuture<P: Request> {
    request: RequestFuture<P>,
}

impl<P: Request> Future for ResponseFuture<P> {
    type Output = Answered<P>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.request.poll_answer(cx)
    }
}

/// A reply or an error with metadata.
type Answered<P> = Result<Response<<P as Request>::Reply>, Response<RequestError<<P as Request>::Error>>>;

/// The future of a request.
///
/// Cancel safe: dropping it before the answer has come tells the server to stop the handler, and never disturbs another
/// call. Nothing is sent before the first poll. Polled again after it has resolved, it stays pending.
///
/// While the session has no connection it waits for one, as far as
/// [`ReconnectOptions`](crate::ReconnectOptions) and [`RequestBuilder::while_offline`] let it. When a connection is
/// lost with the answer on it, the request ends with [`RequestError::Disconnected`]; one that was never written (of at most
/// 16 KiB) goes over the next connection, and one whose packet is marked `idempotent` is sent again over the next connection, up to three times.
#[must_use = "futures do nothing unless they are awaited"]
pub struct RequestFuture<P: Request> {
    inner: nalix_core::RequestFuture<P>,
    while_offline: WhileOffline,
    /// What is known of more than one attempt. Nearly all calls need one, and none of this.
    again: Option<Box<Again<P::Error>>>,
}

/// A call that is made more than once, or may be.
struct Again<E> {
    retry: Option<Retry>,
    /// Whether its first attempt has begun.
    begun: bool,
    /// When all of it ends at the latest.
    deadline: Option<Instant>,
    /// How often it has been made again since it had failed.
    retried: u32,
    /// How often it has been sent again since the answer was lost.
    resent: u32,
    backoff: Option<Backoff>,
    next: Next,
    /// How the last attempt has ended that may have reached the server.
    last: Option<Response<RequestError<E>>>,
}

/// What comes before the next attempt.
enum Next {
    /// Nothing: an attempt goes on.
    Attempt,
    /// The first look for a connection, of a call that was made when there was none.
    Start,
    Connection(Wait),
    Delay(Pin<Box<Sleep>>),
}

impl<P: Request> fmt::Debug for RequestFuture<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestFuture").field("inner", &self.inner).finish_non_exhaustive()
    }
}

// Nothing in it is pinned.
impl<P: Request> Unpin for RequestFuture<P> {}

impl<P: Request> Future for RequestFuture<P> {
    type Output = Result<P::Reply, RequestError<P::Error>>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if this.again.is_some() {
            return this.poll_again(cx);
        }
        let polled = Pin::new(&mut this.inner).poll(cx);
        if matches!(&polled, Poll::Ready(Err(error)) if may_go_on(P::IDEMPOTENT, this.inner.__has_packet(), error))
        {
            return this.failed_first(polled, cx);
        }
        polled
    }
}

impl<P: Request> RequestFuture<P> {
    pub(crate) fn first(inner: nalix_core::RequestFuture<P>) -> Self {
        Self { inner, while_offline: WhileOffline::Wait, again: None }
    }

    /// As `poll`, of a call whose first attempt has failed.
    #[cold]
    fn failed_first(
        &mut self,
        polled: Poll<<Self as Future>::Output>,
        cx: &mut Context<'_>,
    ) -> Poll<<Self as Future>::Output> {
        match polled {
            Poll::Ready(Err(error)) => match self.go_on(error.into()) {
                Ok(()) => self.poll_again(cx),
                Err(error) => Poll::Ready(Err(error.into_inner())),
            },
            done => done,
        }
    }

    /// As `poll`, of a call that is made more than once, or may be.
    #[cold]
    fn poll_again(&mut self, cx: &mut Context<'_>) -> Poll<<Self as Future>::Output> {
        self.poll_answer(cx).map(|answer| match answer {
            Ok(reply) => Ok(reply.into_inner()),
            Err(error) => Err(error.into_inner()),
        })
    }

    fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<Answered<P>> {
        loop {
            if let Some(again) = &mut self.again {
                again.begin(&mut self.inner);
                match again.poll_next(&self.inner, self.while_offline, cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Ok(None)) => {}
                    Poll::Ready(Ok(Some(connection))) => {
                        if self.inner.__restart(connection) {
                            again.limit(&mut self.inner);
                        }
                    }
                    Poll::Ready(Err(stop)) => return Poll::Ready(Err(again.stopped(stop))),
                }
            }
            let error = match self.inner.__poll_response(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(reply)) => {
                    self.succeeded();
                    return Poll::Ready(Ok(reply));
                }
                Poll::Ready(Err(error)) => error,
            };
            if let Err(error) = self.go_on(error) {
                return Poll::Ready(Err(error));
            }
        }
    }

    /// An attempt has failed. Prepares the next one, if there is to be one.
    #[cold]
    fn go_on(
        &mut self,
        error: Response<RequestError<P::Error>>,
    ) -> Result<(), Response<RequestError<P::Error>>> {
        let Some(line) = LineOf::of(self.inner.__connection()) else { return Err(error) };
        let again = self.again.get_or_insert_with(|| Box::new(Again::with(None)));
        again.begin(&mut self.inner);
        if may_go_on(P::IDEMPOTENT, self.inner.__has_packet(), &error) && line.reconnects() {
            let sent = matches!(*error, RequestError::Disconnected { maybe_executed: true, .. });
            if sent && again.resent >= MAX_RESENT {
                return Err(error);
            }
            again.resent += u32::from(sent);
            again.last = sent.then_some(error).or(again.last.take());
            let bytes = self.inner.__size_hint();
            let waits = self.while_offline == WhileOffline::Wait;
            return match line.reroute(Some(self.inner.__connection()), waits, bytes, again.deadline) {
                Ok(wait) => {
                    again.next = Next::Connection(wait);
                    Ok(())
                }
                Err(stop) => Err(again.stopped(stop)),
            };
        }
        match again.delay(&line, P::IDEMPOTENT, &error) {
            Some(delay) => {
                again.next = Next::Delay(Box::pin(sleep(delay)));
                again.last = Some(error);
                Ok(())
            }
            None => Err(error),
        }
    }

    fn succeeded(&self) {
        if self.again.as_ref().is_some_and(|again| again.retry.is_some())
            && let Some(line) = LineOf::of(self.inner.__connection())
        {
            line.budget.earn();
        }
    }
}

/// Whether a call that has ended so may be sent over the next connection: one that cannot have run, if its packet is still
/// `there`, or may run twice.
fn may_go_on<E>(idempotent: bool, there: bool, error: &RequestError<E>) -> bool {
    match error {
        RequestError::Closed(_) => true,
        RequestError::Disconnected { maybe_executed, .. } => idempotent || (there && !maybe_executed),
        _ => false,
    }
}

impl<E> Again<E> {
    fn with(retry: Option<Retry>) -> Self {
        Self {
            retry,
            begun: false,
            deadline: None,
            retried: 0,
            resent: 0,
            backoff: None,
            next: Next::Attempt,
            last: None,
        }
    }

    /// Begins the first attempt.
    fn begin<P: Request>(&mut self, inner: &mut nalix_core::RequestFuture<P>) {
        if std::mem::replace(&mut self.begun, true) {
            return;
        }
        self.deadline = inner.__fix_deadline();
        if self.retry.is_some() {
            self.limit(inner);
        }
    }

    /// Sets when the attempt that begins ends at the latest.
    fn limit<P: Request>(&self, inner: &mut nalix_core::RequestFuture<P>) {
        let attempt = self.retry.and_then(|retry| Instant::now().checked_add(retry.per_try?));
        inner.__set_deadline([self.deadline, attempt].into_iter().flatten().min());
    }

    /// Gets over what comes before the next attempt. `None`: an attempt goes on.
    fn poll_next<P: Request>(
        &mut self,
        inner: &nalix_core::RequestFuture<P>,
        while_offline: WhileOffline,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<nalix_core::Connection>, Stop>> {
        loop {
            match &mut self.next {
                Next::Attempt => return Poll::Ready(Ok(None)),
                Next::Start => {
                    self.next = Next::Attempt;
                    let connection = inner.__connection();
                    // A session that is over says so by its connection.
                    let Some(line) = LineOf::of(connection) else { return Poll::Ready(Ok(None)) };
                    let waits = while_offline == WhileOffline::Wait;
                    match line.reroute(None, waits, inner.__size_hint(), self.deadline) {
                        Ok(wait) => self.next = Next::Connection(wait),
                        Err(stop) => return Poll::Ready(Err(stop)),
                    }
                }
                Next::Connection(wait) => {
                    let Poll::Ready(routed) = wait.poll(cx) else { return Poll::Pending };
                    self.next = Next::Attempt;
                    return Poll::Ready(routed.map(Some));
                }
                Next::Delay(sleep) => {
                    if sleep.as_mut().poll(cx).is_pending() {
                        return Poll::Pending;
                    }
                    let Some(line) = LineOf::of(inner.__connection()) else {
                        let reason = nalix_core::CloseReason::new(nalix_core::CloseCode::Normal, "");
                        self.next = Next::Attempt;
                        return Poll::Ready(Err(Stop::Over(reason)));
                    };
                    let (connection, online) = line.route();
                    let over = connection.close_reason().is_some();
                    if online && !over {
                        self.next = Next::Attempt;
                        return Poll::Ready(Ok(Some(connection)));
                    }
                    let gone = over.then_some(&connection);
                    let waits = while_offline == WhileOffline::Wait;
                    match line.reroute(gone, waits, inner.__size_hint(), self.deadline) {
                        Ok(wait) => self.next = Next::Connection(wait),
                        Err(stop) => {
                            self.next = Next::Attempt;
                            return Poll::Ready(Err(stop));
                        }
                    }
                }
            }
        }
    }

    /// How long to wait before the call is made again, if it is.
    fn delay(&mut self, line: &Line, idempotent: bool, error: &RequestError<E>) -> Option<Duration> {
        let retry = self.retry?;
        let heals = match error {
            RequestError::Timeout => idempotent && self.deadline.is_none_or(|at| Instant::now() < at),
            RequestError::Disconnected { maybe_executed, .. } => idempotent || !maybe_executed,
            RequestError::Status(status) if status.advice == nalix_core::Advice::GiveUp => false,
            RequestError::Status(status) => {
                status.is_retryable()
                    || (idempotent && matches!(status.code, Code::Unavailable | Code::Aborted))
            }
            _ => false,
        };
        // What does not count for the budget says nothing about how the server is.
        if !heals || !line.budget.spend() || self.retried >= retry.times {
            return None;
        }
        let backoff = self.backoff.get_or_insert_with(|| Backoff::new(retry.first_delay, retry.max_delay));
        let delay = backoff.next(error.retry_after());
        if self.deadline.is_some_and(|deadline| Instant::now() + delay >= deadline) {
            return None;
        }
        self.retried += 1;
        Some(delay)
    }

    /// What the call ends with that is not made again. One that may have run must not say that it has not.
    fn stopped(&mut self, stop: Stop) -> Response<RequestError<E>> {
        self.last.take().unwrap_or_else(|| {
            Response::new(match stop {
                Stop::Over(reason) => RequestError::Closed(reason),
                Stop::Offline(offline) => RequestError::Offline(offline),
                Stop::Late => RequestError::Timeout,
            })
        })
    }
}

/// How often a call is sent again since its answer was lost: one that brings servers down must not go on doing so.
const MAX_RESENT: u32 = 3;
