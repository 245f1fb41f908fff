//! The sending end of an upload.

mod whole;

use std::{
    fmt,
    future::{Future, poll_fn},
    marker::PhantomData,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use tokio::time::Instant;

use super::{
    RequestError, Response, SendError,
    flow::{Ending, Owner, Sending},
    flows::Key,
    incoming::give_up,
    request,
    shared::{Shared, State, wake},
    waiters::Ticket,
};
use crate::{
    Wire,
    error::EncodeError,
    frame::{Entries, encode_status},
    packet::UploadRequest,
    session::max_items,
    status::{Code, Status},
    wire::{Encode, Writer, append_item},
};

/// The upload of a packet with `upload` and `stream`: the sending end of [`Connection::duplex`](super::Connection::duplex).
///
/// Dropping it before [`Outgoing::finish`] lets the other side know that the upload was given up: its handler sees an
/// error of status `Cancelled` in place of the end. The stream that comes back goes on; dropping that ends both.
#[must_use = "dropping it gives the upload up"]
pub struct Outgoing<T> {
    raw: RawOutgoing,
    chunks: PhantomData<fn(T)>,
}

impl<T> fmt::Debug for Outgoing<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outgoing").finish_non_exhaustive()
    }
}

impl<T: Wire> Outgoing<T> {
    pub(super) fn new(raw: RawOutgoing) -> Self {
        Self { raw, chunks: PhantomData }
    }

    /// Sends a chunk: done when it is in the outbox, which waits until the other side has room for its first byte, and
    /// all that was sent before. What is longer goes as there is room, beside everything else.
    ///
    /// Cancel safe: dropped before it is done, it has sent nothing.
    pub fn send<'a>(&'a mut self, chunk: &'a T) -> SendChunk<'a, T> {
        SendChunk { raw: &mut self.raw, chunk, ticket: None }
    }

    /// Ends the upload: the other side has all of it.
    ///
    /// # Errors
    /// [`SendError::Closed`] if the connection has ended, [`SendError::Stopped`] if the other side did not want all.
    pub fn finish(self) -> Result<(), SendError> {
        self.raw.finish(None)
    }

    /// Ends the upload with a failure, which the other side's handler sees behind the chunks that were sent.
    ///
    /// # Errors
    /// As [`Outgoing::finish`].
    pub fn fail(self, status: &Status) -> Result<(), SendError> {
        self.raw.finish(Some(status))
    }
}

/// The upload of a packet with `upload` and `reply`: what [`Connection::upload`](super::Connection::upload) returns.
///
/// Dropping it before it has been finished cancels the call.
///
/// ```
/// use nalix_core::{Connection, packet};
///
/// #[packet(opcode = 0x4002, upload = Vec<u8>, reply = u64)]
/// struct Store {
///     name: String,
/// }
///
/// async fn store(connection: Connection) -> Result<u64, Box<dyn std::error::Error>> {
///     let mut upload = connection.upload(Store { name: "notes".into() }).await?;
///     for chunk in [vec![1; 100], vec![2; 100]] {
///         upload.send(&chunk).await?;
///     }
///     Ok(upload.finish().await?)
/// }
/// ```
#[must_use = "dropping it cancels the call"]
pub struct Upload<P: UploadRequest> {
    raw: RawOutgoing,
    packet: PhantomData<fn(P)>,
}

impl<P: UploadRequest> fmt::Debug for Upload<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upload").field("packet", &P::NAME).finish_non_exhaustive()
    }
}

impl<P: UploadRequest> Upload<P> {
    pub(super) fn new(raw: RawOutgoing) -> Self {
        Self { raw, packet: PhantomData }
    }

    /// Sends a chunk: done when it is in the outbox, which waits until the other side has room for its first byte, and
    /// all that was sent before. What is longer goes as there is room, beside everything else.
    ///
    /// [`SendError::Stopped`] says that the other side takes no more, for instance since it has answered already:
    /// [`Upload::finish`] tells what; [`Upload::finish_with`] sees to that by itself. Cancel safe: dropped before it is done, it has sent nothing.
    pub fn send<'a>(&'a mut self, chunk: &'a P::Chunk) -> SendChunk<'a, P::Chunk> {
        SendChunk { raw: &mut self.raw, chunk, ticket: None }
    }

    /// Ends the upload and waits for the answer. Dropping the future cancels the call.
    pub fn finish(self) -> Finish<P> {
        // Whether the other side still wants the end, its answer says.
        drop(self.raw.finish(None));
        Finish { raw: Some(self.raw), packet: PhantomData }
    }

    /// Ends the upload with a failure, which the other side's handler sees behind the chunks that were sent, and waits for
    /// the answer.
    pub fn fail(self, status: &Status) -> Finish<P> {
        drop(self.raw.finish(Some(status)));
        Finish { raw: Some(self.raw), packet: PhantomData }
    }
}

/// The future of a chunk: done when it is in the outbox. Cancel safe.
#[must_use = "futures do nothing unless they are awaited"]
pub struct SendChunk<'a, T> {
    raw: &'a mut RawOutgoing,
    chunk: &'a T,
    ticket: Option<Ticket>,
}

impl<T> fmt::Debug for SendChunk<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendChunk").finish_non_exhaustive()
    }
}

impl<T: Encode> Future for SendChunk<'_, T> {
    type Output = Result<(), SendError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let shared = &*this.raw.shared;
        let mut state = shared.lock();
        let queued = this.ticket.filter(|&ticket| state.waiters.update(ticket, cx.waker()));
        let had_turn = this.ticket.is_some() && queued.is_none();
        if let Err(error) = may_send(&mut state, this.raw.key) {
            if let Some(ticket) = this.ticket.take() {
                drop(state);
                shared.leave_queue(ticket);
            }
            return Poll::Ready(Err(error));
        }
        if queued.is_some() {
            return Poll::Pending;
        }
        let Some(flow) = state.flows.get(this.raw.key) else { return Poll::Ready(Err(SendError::Stopped)) };
        let priority = flow.priority.unwrap_or_default();
        if !flow.outgoing.as_ref().is_some_and(Sending::may_put) {
            match &mut flow.writer {
                Some(writer) => writer.clone_from(cx.waker()),
                writer => *writer = Some(cx.waker().clone()),
            }
            // A turn in the queue is of no use without credit.
            let next = had_turn.then(|| state.next_waiter()).flatten();
            drop(state);
            this.ticket = None;
            wake([next]);
            return Poll::Pending;
        }
        if !state.has_room(priority) || (!had_turn && !state.waiters.is_first_sender(priority, 0)) {
            this.ticket = Some(state.waiters.push_sender(cx.waker(), (priority, 0), had_turn));
            return Poll::Pending;
        }
        let result = put(&mut state, this.raw.key, this.chunk);
        let next = state.next_waiter();
        let driver = shared.wake_driver(&mut state);
        drop(state);
        this.ticket = None;
        wake([driver, next]);
        Poll::Ready(result.map_err(SendError::from))
    }
}

impl<T> Drop for SendChunk<'_, T> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.raw.shared.leave_queue(ticket);
        }
    }
}

/// Why no chunk is taken any more, if that is so.
fn may_send(state: &mut State, key: Key) -> Result<(), SendError> {
    let gone = state.gone().cloned();
    if let Some(reason) = gone {
        return Err(SendError::Closed(reason));
    }
    match state.flows.get(key) {
        Some(flow) if flow.deadline.is_some_and(|deadline| deadline <= Instant::now()) => {
            Err(SendError::Stopped)
        }
        Some(flow) if flow.end.is_none() && flow.outgoing.as_ref().is_some_and(|o| !o.stopped) => Ok(()),
        _ => Err(SendError::Stopped),
    }
}

/// Puts a chunk behind those that wait to become a frame; they all go in one when the driver looks, or in several if they are
/// long or there is not enough credit.
fn put<T: Encode>(state: &mut State, key: Key, chunk: &T) -> Result<(), EncodeError> {
    let State { flows, out, .. } = state;
    let limit = out.max_message();
    // In a buffer of its own until it is known to be good: `Encode` is user code and may panic.
    let mut item = flows.take_scratch();
    let encoded = append_item(&mut item, chunk, limit);
    if encoded.is_ok() {
        let waiting = flows.get(key).and_then(|flow| flow.outgoing.as_ref()).map_or(0, Sending::waiting);
        if waiting > 0 && waiting + item.len() > max_items(limit) {
            flows.send(key, out);
        }
        flows.change(key, |outgoing| outgoing.put(&mut item));
    }
    flows.keep_scratch(item);
    encoded
}

/// The future of an upload's answer.
///
/// Dropping it before the answer has come tells the peer to stop the handler.
#[must_use = "futures do nothing unless they are awaited"]
pub struct Finish<P: UploadRequest> {
    raw: Option<RawOutgoing>,
    packet: PhantomData<fn() -> P>,
}

impl<P: UploadRequest> fmt::Debug for Finish<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Finish").field("packet", &P::NAME).finish_non_exhaustive()
    }
}

impl<P: UploadRequest> Finish<P> {
    /// Waits for the answer with the metadata that the other side has attached to it, as
    /// [`RequestBuilder::response`](crate::RequestBuilder::response) does.
    ///
    /// # Errors
    /// What the answer is, or [`RequestError`] without one, with its metadata.
    pub async fn response(mut self) -> Result<Response<P::Reply>, Response<RequestError<P::Error>>> {
        match poll_fn(|cx| self.poll_with(cx)).await {
            (Ok(reply), entries) => Ok(Response::received(reply, entries)),
            (Err(error), entries) => Err(Response::received(error, entries)),
        }
    }

    fn poll_with(&mut self, cx: &Context<'_>) -> Poll<(<Self as Future>::Output, Option<Entries>)> {
        let Some(raw) = &self.raw else { return Poll::Pending };
        let Some(end) = raw.poll_end(cx) else {
            if raw.is_late() {
                self.raw = None;
                return Poll::Ready((Err(RequestError::Timeout), None));
            }
            return Poll::Pending;
        };
        let reason = raw.shared.close_reason();
        let late = raw.is_late();
        self.raw = None;
        let answer = match end {
            Ending::Answered(answer) => Some(answer),
            Ending::Over => None,
        };
        let (result, entries) = request::read(answer, reason);
        let both = matches!(&result, Err(RequestError::Status(s)) if s.code == Code::DeadlineExceeded);
        Poll::Ready((if both && late { Err(RequestError::Timeout) } else { result }, entries))
    }
}

impl<P: UploadRequest> Future for Finish<P> {
    type Output = Result<P::Reply, RequestError<P::Error>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_with(cx).map(|(result, _)| result)
    }
}

/// The sending end of an upload without its types.
#[derive(Debug)]
pub(crate) struct RawOutgoing {
    shared: Arc<Shared>,
    key: Key,
    deadline: Option<Instant>,
    /// Whether the call is this upload's alone, so that it ends with it.
    alone: bool,
}

impl RawOutgoing {
    pub(super) fn new(shared: Arc<Shared>, key: Key, deadline: Option<Instant>, alone: bool) -> Self {
        Self { shared, key, deadline, alone }
    }

    fn is_late(&self) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= Instant::now())
    }

    fn poll_end(&self, cx: &Context<'_>) -> Option<Ending> {
        let mut state = self.shared.lock();
        let flow = match state.flows.get(self.key) {
            Some(flow) => flow,
            None => return Some(Ending::Over),
        };
        if flow.end.is_none() {
            flow.reader = Some(cx.waker().clone());
        }
        flow.end.clone()
    }

    fn finish(&self, status: Option<&Status>) -> Result<(), SendError> {
        let mut state = self.shared.lock();
        let result = may_send(&mut state, self.key);
        // Chunks may have been refused since the deadline. What is not whole must not end as if it were.
        let late = Status::new(Code::DeadlineExceeded, "the deadline has passed before the upload was whole");
        let status = status.or_else(|| self.is_late().then_some(&late));
        let driver = end_upload(&self.shared, &mut state, self.key, status);
        drop(state);
        wake([driver]);
        result
    }
}

/// Sends the end of an upload, unless it has been sent or nobody waits for it.
fn end_upload(shared: &Shared, state: &mut State, key: Key, status: Option<&Status>) -> Option<Waker> {
    if state.gone().is_some() {
        return None;
    }
    let mut end = Vec::new();
    if let Some(status) = status {
        encode_status(&mut Writer::new(&mut end, usize::MAX), status);
    }
    state.flows.finish(key, end);
    shared.wake_driver(state)
}

impl Drop for RawOutgoing {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        let driver = match state.flows.get(self.key) {
            Some(flow) if flow.end.is_none() => match flow.call {
                Owner::Ours(call) if self.alone => {
                    state.flows.end(self.key, Ending::Over);
                    give_up(&self.shared, &mut state, call)
                }
                _ => {
                    let status = Status::new(Code::Cancelled, "the upload was given up");
                    end_upload(&self.shared, &mut state, self.key, Some(&status))
                }
            },
            _ => None,
        };
        let flow = state.flows.release(self.key);
        let next = state.next_waiter();
        drop(state);
        drop(flow);
        wake([driver, next]);
    }
}
