//! A typed call to the other side.

mod again;

use std::{
    fmt,
    future::{Future, IntoFuture},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use tokio::time::Instant;

use self::again::Keeps;
use super::{
    Connection, RequestError, Response,
    append::append_packet,
    attached::Attached,
    calls::{Answer, Calls, Key},
    large::large,
    shared::{Shared, State, wake},
    waiters::Ticket,
};
use crate::{
    error::{DecodeError, DecodeErrorKind, EncodeError},
    frame::{Entries, FrameKind, Head, Metadata, decode_failure},
    packet::{Request, Wire, decode_value},
    session::Cover,
    status::{CloseCode, CloseReason, Code, Failure},
    wire::Limits,
};

/// A request that has not been sent yet. Await it, or set its options first.
#[must_use = "a request is sent when it is awaited"]
pub struct RequestBuilder<P: Request> {
    connection: Connection,
    packet: P,
    timeout: Option<Duration>,
    deadline: Option<Instant>,
    attached: Attached,
}

impl<P: Request> fmt::Debug for RequestBuilder<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestBuilder").field("packet", &P::NAME).field("timeout", &self.timeout).finish()
    }
}

impl<P: Request> RequestBuilder<P> {
    pub(super) fn new(connection: Connection, packet: P) -> Self {
        let timeout = connection.shared.setup.request_timeout;
        Self { connection, packet, timeout, deadline: None, attached: Attached::default() }
    }

    /// How long to wait for the answer, from the first poll on. It travels with the request as remaining time, and the
    /// peer stops the handler when it has passed. The default is the connection's.
    ///
    /// Zero fails with [`RequestError::Timeout`] before anything is sent.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Waits until this instant at the most, whenever it is first polled. It takes the place of the default timeout; of
    /// a deadline and a timeout that is set after it, the earlier counts.
    pub fn deadline(mut self, deadline: std::time::Instant) -> Self {
        (self.timeout, self.deadline) = (None, Some(Instant::from_std(deadline)));
        self
    }

    /// Waits for as long as the connection lives. The peer may still have a limit of its own.
    pub fn no_timeout(mut self) -> Self {
        (self.timeout, self.deadline) = (None, None);
        self
    }

    /// Lets a key and a value travel with the request, for [`Context::metadata`](crate::Context::metadata) of its handler
    /// and of layers before it: a trace context, a token. They travel as the request does: encrypted if it is.
    ///
    /// A key of over [`MAX_KEY`](crate::frame::MAX_KEY) bytes or an empty one, and more than
    /// [`MAX_ENTRIES`](crate::frame::MAX_ENTRIES) bytes together, fail the request with [`RequestError::Encode`]; nothing is
    /// sent then.
    ///
    /// ```no_run
    /// # use nalix_core::{Connection, packet};
    /// # #[packet(opcode = 0x1001, reply = u64)]
    /// # struct Count;
    /// # async fn f(connection: Connection) -> Result<(), Box<dyn std::error::Error>> {
    /// let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    /// let n = connection.request(Count).metadata("traceparent", parent).await?;
    /// # Ok(()) }
    /// ```
    pub fn metadata(mut self, key: &str, value: impl AsRef<[u8]>) -> Self {
        self.attached.push(key, value.as_ref());
        self
    }

    /// Resolves to the reply, or to the error, with the metadata that the other side has attached to it: a [`Response`] of
    /// either. Without this, what comes along is dropped.
    ///
    /// ```no_run
    /// # use nalix_core::{Connection, packet};
    /// # #[packet(opcode = 0x1001, reply = u64)]
    /// # struct Count;
    /// # async fn f(connection: Connection) -> Result<(), Box<dyn std::error::Error>> {
    /// let count = connection.request(Count).response().await?;
    /// if count.metadata("cache") == Some(b"hit") {
    ///     println!("{} from the cache", *count);
    /// }
    /// # Ok(()) }
    /// ```
    pub fn response(self) -> ResponseBuilder<P> {
        ResponseBuilder { request: self }
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
        self.request.__poll_response(cx)
    }
}

/// A reply or an error with metadata.
type Answered<P> = Result<Response<<P as Request>::Reply>, Response<RequestError<<P as Request>::Error>>>;

/// What a request ends with, and the metadata that has come along.
type Received<P> = (<RequestFuture<P> as Future>::Output, Option<Entries>);

impl<P: Request> IntoFuture for RequestBuilder<P> {
    type Output = Result<P::Reply, RequestError<P::Error>>;
    type IntoFuture = RequestFuture<P>;

    fn into_future(self) -> RequestFuture<P> {
        RequestFuture {
            connection: self.connection,
            timeout: self.timeout,
            deadline: self.deadline,
            attached: self.attached,
            keeps: Keeps::Nothing,
            stage: Stage::Unsent(self.packet),
        }
    }
}

/// The future of a request.
///
/// Cancel safe: dropping it before the answer has come tells the peer to stop the handler, and never disturbs another
/// call. Nothing is sent before the first poll. Polled again after it has resolved, it stays pending.
#[must_use = "futures do nothing unless they are awaited"]
pub struct RequestFuture<P: Request> {
    connection: Connection,
    timeout: Option<Duration>,
    deadline: Option<Instant>,
    attached: Attached,
    /// Which packets are kept when it has been sent.
    keeps: Keeps,
    stage: Stage<P>,
}

enum Stage<P> {
    /// Not polled yet.
    Unsent(P),
    /// Waiting for a slot and for room in the outbox.
    Queued(P, Ticket),
    /// At the head of the queue, being encoded. Left behind only by an `Encode` that panics.
    Turn,
    /// Sent, with the packet if it is kept.
    Sent(Key, Option<P>),
    /// With the packet, if it has not been sent or is kept.
    Done(Option<P>),
}

impl<P: Request> fmt::Debug for RequestFuture<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = match self.stage {
            Stage::Unsent(_) => "unsent",
            Stage::Queued(..) => "queued",
            Stage::Turn => "being sent",
            Stage::Sent(..) => "sent",
            Stage::Done(_) => "done",
        };
        f.debug_struct("RequestFuture").field("packet", &P::NAME).field("stage", &stage).finish()
    }
}

// Nothing in it is pinned: the packet is moved out when it is encoded.
impl<P: Request> Unpin for RequestFuture<P> {}

impl<P: Request> Future for RequestFuture<P> {
    type Output = Result<P::Reply, RequestError<P::Error>>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.get_mut().poll_with(cx).map(|(result, _)| result)
    }
}

impl<P: Request> RequestFuture<P> {
    #[inline]
    fn poll_with(&mut self, cx: &Context<'_>) -> Poll<Received<P>> {
        let unanswered = |result| (result, None);
        let this = self;
        // Asked first, since most polls are for an answer that has come.
        if let Stage::Sent(key, _) = this.stage {
            return this.wait(key, cx);
        }
        match std::mem::replace(&mut this.stage, Stage::Done(None)) {
            Stage::Unsent(packet) => {
                // The peer should not be told of what is as good as for ever.
                this.timeout = this.timeout.filter(|&timeout| timeout < FOR_EVER);
                if this.deadline.is_none() {
                    return this.start(packet, None, this.timeout, cx).map(unanswered);
                }
                let now = Instant::now();
                let timeout = this.timeout.and_then(|timeout| now.checked_add(timeout));
                this.deadline = match (this.deadline, timeout) {
                    (Some(a), Some(b)) => Some(a.min(b)),
                    (a, b) => a.or(b),
                };
                let remaining = this.deadline.map(|deadline| deadline.saturating_duration_since(now));
                this.start(packet, None, remaining, cx).map(unanswered)
            }
            Stage::Queued(packet, ticket) => {
                let remaining =
                    this.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
                this.start(packet, Some(ticket), remaining, cx).map(unanswered)
            }
            done @ Stage::Done(_) => {
                this.stage = done;
                Poll::Pending
            }
            Stage::Sent(..) | Stage::Turn => Poll::Pending,
        }
    }

    /// The future of a request that has been sent already.
    pub(super) fn sent(connection: Connection, deadline: Option<Instant>, key: Key) -> Self {
        let (attached, keeps, stage) = (Attached::default(), Keeps::Nothing, Stage::Sent(key, None));
        Self { connection, timeout: None, deadline, attached, keeps, stage }
    }

    /// Sends the request, or queues up for it. `remaining` is the time until the deadline.
    fn start(
        &mut self,
        packet: P,
        ticket: Option<Ticket>,
        remaining: Option<Duration>,
        cx: &Context<'_>,
    ) -> Poll<<Self as Future>::Output> {
        let shared = &*self.connection.shared;
        if P::ENCRYPT && !shared.is_secured() {
            return Poll::Ready(Err(RequestError::EncryptionRequired));
        }
        if remaining.is_some_and(|left| left.is_zero()) {
            if let Some(ticket) = ticket {
                shared.leave_queue(ticket);
            }
            return Poll::Ready(Err(RequestError::Timeout));
        }
        let mut state = shared.lock();
        if let Some(reason) = state.gone() {
            let error = RequestError::Closed(reason.clone());
            drop(state);
            // It has not been sent, and may go over another connection.
            self.stage = Stage::Done(Some(packet));
            return Poll::Ready(Err(error));
        }
        // Whoever is still in the queue waits for its turn; one who was woken, or who finds the queue empty, has it.
        let (large, priority) = (large(&packet), P::PRIORITY.unwrap_or_default());
        let queued = ticket.filter(|&ticket| state.waiters.update(ticket, cx.waker()));
        let its_turn =
            queued.is_none() && (ticket.is_some() || state.waiters.is_first_caller(priority, large));
        let (mut next, mut kept) = (None, None);
        let result = if its_turn && state.can_call(priority, large) {
            self.stage = Stage::Turn;
            let sent = send(&mut state, &packet, &self.attached, (self.deadline, remaining), cx);
            if let (Ok(Some(key)), None, Some(timeout)) = (&sent, self.deadline, self.timeout) {
                state.calls.set_timeout(*key, timeout);
            }
            next = state.next_waiter();
            kept = self.keeps.packet(large > 0).then_some(packet);
            sent
        } else {
            if let (None, Some(timeout)) = (self.deadline, self.timeout) {
                self.deadline = Instant::now().checked_add(timeout);
            }
            let ticket = queued.unwrap_or_else(|| {
                state.waiters.push_caller(cx.waker(), (priority, large), self.deadline, ticket.is_some())
            });
            self.stage = Stage::Queued(packet, ticket);
            Ok(None)
        };
        if let Some(deadline) = self.deadline {
            state.note_deadline(deadline);
        }
        let written = matches!(result, Ok(Some(_))) && shared.write_directly(&mut state);
        let driver = if written { None } else { shared.wake_driver(&mut state) };
        drop(state);
        wake([driver, next]);
        match result {
            Ok(Some(key)) => self.stage = Stage::Sent(key, kept),
            Ok(None) => {}
            Err(error) => {
                self.stage = Stage::Done(None);
                return Poll::Ready(Err(error.into()));
            }
        }
        Poll::Pending
    }

    /// Takes the packet out, if it is kept.
    fn kept(&mut self) -> Option<P> {
        match &mut self.stage {
            Stage::Sent(_, kept) => kept.take(),
            _ => None,
        }
    }

    fn wait(&mut self, key: Key, cx: &Context<'_>) -> Poll<Received<P>> {
        let shared = &*self.connection.shared;
        let mut state = shared.lock();
        match state.calls.poll(key, cx.waker()) {
            Poll::Pending => {
                let deadline = state.calls.deadline(key);
                drop(state);
                if is_late(deadline) {
                    self.stage = Stage::Done(self.kept());
                    cancel(&self.connection.shared, key);
                    return Poll::Ready((Err(RequestError::Timeout), None));
                }
                Poll::Pending
            }
            Poll::Ready(answer) => {
                let next = state.next_waiter();
                if let Some(Answer::Reply(payload)) = &answer {
                    // Nearly always, and then there is nothing else to be moved about.
                    drop(state);
                    self.stage = Stage::Done(None);
                    wake([next]);
                    return Poll::Ready((read_value(payload), None));
                }
                let reason = state.closed().cloned();
                let deadline = state.calls.deadline(key);
                drop(state);
                self.stage = Stage::Done(self.kept());
                // For those who make the call again.
                self.deadline = self.deadline.or(deadline);
                wake([next]);
                let (result, entries) = read(answer, reason);
                // Both sides watch the same deadline. Whoever is first, the caller is told the same.
                let both =
                    matches!(&result, Err(RequestError::Status(s)) if s.code == Code::DeadlineExceeded);
                Poll::Ready((
                    if both && is_late(deadline) { Err(RequestError::Timeout) } else { result },
                    entries,
                ))
            }
        }
    }
}

fn is_late(deadline: Option<Instant>) -> bool {
    deadline.is_some_and(|deadline| deadline <= Instant::now())
}

impl<P: Request> Drop for RequestFuture<P> {
    fn drop(&mut self) {
        match std::mem::replace(&mut self.stage, Stage::Done(None)) {
            Stage::Queued(_, ticket) => self.connection.shared.leave_queue(ticket),
            Stage::Turn => self.connection.shared.pass_on(),
            Stage::Sent(key, _) => cancel(&self.connection.shared, key),
            Stage::Unsent(_) | Stage::Done(_) => {}
        }
    }
}

/// Takes a slot and appends the request's frame, or leaves everything as it was.
fn send<P: Request>(
    state: &mut State,
    packet: &P,
    attached: &Attached,
    (deadline, remaining): (Option<Instant>, Option<Duration>),
    cx: &Context<'_>,
) -> Result<Option<Key>, EncodeError> {
    let entries = attached.entries()?;
    let State { calls, out, .. } = state;
    let cover = Cover::of(P::ENCRYPT);
    let key = calls.insert(cx.waker().clone(), deadline, cover);
    let mut slot = Slot { calls, key, sent: false };
    let head = Head::request(key.id(), P::OPCODE);
    let metadata = (remaining.map(Metadata::remaining).unwrap_or_default(), entries);
    let appended = append_packet(out, head, metadata, packet)?;
    slot.calls.set_position(key, appended.position);
    slot.sent = true;
    Ok(Some(key))
}

/// A slot that is given back if the request cannot be encoded, or if its `Encode` panics: that is user code.
struct Slot<'a> {
    calls: &'a mut Calls,
    key: Key,
    sent: bool,
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        if !self.sent {
            self.calls.take_back(self.key);
        }
    }
}

/// Gives up a call that has been sent, and tells the peer if it is still busy with it.
fn cancel(shared: &Shared, key: Key) {
    let mut state = shared.lock();
    let mut driver = None;
    if state.calls.abandon(key) && state.gone().is_none() {
        if state.cancel(key.id()) {
            let head = Head::of_call(FrameKind::Cancel, key.id());
            // An empty payload is never too large.
            drop(state.out.append(Cover::Sealed, head, Metadata::default(), 0, |_| ()));
        }
        driver = shared.wake_driver(&mut state);
    }
    let next = state.next_waiter();
    drop(state);
    wake([driver, next]);
}

/// Makes of an answer what the caller gets.
pub(super) fn read<R: Wire, E: Wire>(
    answer: Option<Answer>,
    reason: Option<CloseReason>,
) -> (Result<R, RequestError<E>>, Option<Entries>) {
    let lost = |maybe_executed| {
        let reason = reason.unwrap_or_else(|| CloseReason::new(CloseCode::Internal, "answer lost"));
        RequestError::Disconnected { maybe_executed, reason }
    };
    let (answer, entries) = match answer.map(Answer::split) {
        Some((answer, entries)) => (Some(answer), entries),
        None => (None, None),
    };
    let result = match answer {
        Some(Answer::Reply(payload)) => read_value(&payload),
        Some(Answer::Error(body)) => Err(match decode_failure(&body) {
            Ok(Failure::Application(payload)) => match decode_value(&payload, &Limits::DEFAULT) {
                Ok(error) => RequestError::Application(error),
                Err(error) => RequestError::Decode(error),
            },
            Ok(Failure::Status(status)) => RequestError::Status(status),
            Err(error) => RequestError::Decode(error),
        }),
        Some(Answer::End(_) | Answer::Attached(_)) => Err(RequestError::Decode(not_a_reply())),
        Some(Answer::Lost { maybe_executed }) => Err(lost(maybe_executed)),
        // The slot is gone, which only happens if the table is at fault.
        None => Err(lost(true)),
    };
    (result, entries)
}

/// The peer takes the packet for one with a stream.
#[cold]
pub(super) fn not_a_reply() -> DecodeError {
    DecodeErrorKind::Custom("an end of a stream instead of a reply").into()
}

fn read_value<T: Wire, E>(payload: &Bytes) -> Result<T, RequestError<E>> {
    decode_value(payload, &Limits::DEFAULT).map_err(RequestError::Decode)
}

/// A thousand years.
const FOR_EVER: Duration = Duration::from_secs(1_000 * 365 * 24 * 60 * 60);
