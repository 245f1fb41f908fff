//! The receiving end of a stream.

use std::{
    collections::VecDeque,
    fmt,
    future::poll_fn,
    marker::PhantomData,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures_core::{FusedStream, Stream};
use tokio::time::Instant;

use super::{
    StreamError,
    attached::Attached,
    calls::Answer,
    flow::{Ending, Flow, Owner},
    flows::Key,
    shared::{Shared, State, wake},
};
use crate::{
    CallId, Wire,
    error::{DecodeError, DecodeErrorKind},
    frame::{Entries, FrameKind, Head, Metadata, decode_failure},
    packet::{NoError, decode_value},
    session::Cover,
    status::{CloseCode, CloseReason, Code, Failure, Status},
    wire::{Limits, Reader},
};

/// A stream that comes from the other side: the answer to [`Connection::stream`](super::Connection::stream), or the upload
/// that a handler takes as the argument behind its packet.
///
/// Its items are results. After an error that ends it, and after the last item, it has no more. An item that cannot be
/// decoded is an error of that item alone.
///
/// Dropping it tells the other side to stop: it ends the call that was asked for a stream, and lets the sender of an
/// upload know that nobody reads on.
///
/// It holds at most the window of the connection (the `stream_window` option) besides what it has been asked for: the
/// sender is given room again when items have been taken out of here.
///
/// ```
/// use nalix_core::{Connection, packet};
///
/// #[packet(opcode = 0x4001, stream = u64)]
/// struct Watch;
///
/// async fn watch(connection: Connection) -> Result<(), Box<dyn std::error::Error>> {
///     let mut ticks = connection.stream(Watch).await?;
///     while let Some(tick) = ticks.next().await {
///         println!("{}", tick?);
///     }
///     Ok(())
/// }
/// ```
#[must_use = "dropping it stops the stream"]
pub struct Incoming<T, E = NoError> {
    raw: Option<RawIncoming>,
    /// The frame whose items are being handed out, and how far that has come.
    frame: Bytes,
    at: usize,
    frames: VecDeque<Bytes>,
    /// What has come with the end.
    trailers: Attached,
    /// Bytes taken out of here that the sender has not been told of.
    consumed: usize,
    /// From how many on it is told.
    tell_at: usize,
    items: PhantomData<fn() -> (T, E)>,
}

impl<T, E> fmt::Debug for Incoming<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Incoming").field("ended", &self.raw.is_none()).finish_non_exhaustive()
    }
}

impl<T: Wire, E: Wire> Incoming<T, E> {
    pub(crate) fn new(raw: RawIncoming) -> Self {
        let tell_at = raw.window.div_ceil(2).max(1);
        Self { raw: Some(raw), tell_at, ..Self::ended() }
    }

    /// One that has no items.
    pub(crate) fn ended() -> Self {
        Self {
            raw: None,
            frame: Bytes::new(),
            at: 0,
            frames: VecDeque::new(),
            trailers: Attached::default(),
            consumed: 0,
            tell_at: 1,
            items: PhantomData,
        }
    }

    /// The next item; `None` when there are no more.
    ///
    /// Cancel safe: dropped before it is done, it has taken nothing. A timeout around it limits the wait for one item: it
    /// does not end a loop while items are there at once. The whole stream is limited by
    /// [`OpenBuilder::timeout`](crate::OpenBuilder::timeout).
    pub async fn next(&mut self) -> Option<Result<T, StreamError<E>>> {
        poll_fn(|cx| self.poll_next_item(cx)).await
    }

    /// The value of the first pair with this key that the other side has attached to the end of the stream, whichever that
    /// was. There is none before the end has been handed out, and none at the end of an upload.
    pub fn metadata(&self, key: &str) -> Option<&[u8]> {
        self.trailers.good()?.get(key)
    }

    /// All keys and values that have come with the end, in order.
    pub fn all_metadata(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.trailers.good().into_iter().flat_map(Entries::iter)
    }

    fn poll_next_item(&mut self, cx: &Context<'_>) -> Poll<Option<Result<T, StreamError<E>>>> {
        loop {
            if self.at < self.frame.len() {
                return Poll::Ready(Some(self.take_item()));
            }
            if let Some(frame) = self.frames.pop_front() {
                (self.frame, self.at) = (frame, 0);
                continue;
            }
            self.frame = Bytes::new();
            self.at = 0;
            let Some(raw) = &mut self.raw else { return Poll::Ready(None) };
            let consumed = std::mem::take(&mut self.consumed);
            match raw.poll(consumed, &mut self.frames, cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Next::Items) => {}
                Poll::Ready(Next::End(ending)) => {
                    let late = raw.is_late();
                    let reason = raw.shared.close_reason();
                    self.raw = None;
                    return Poll::Ready(self.end_of(ending, reason, late).map(Err));
                }
                Poll::Ready(Next::Late) => {
                    self.raw = None;
                    return Poll::Ready(Some(Err(StreamError::Timeout)));
                }
            }
        }
    }

    #[cold]
    fn end_of(&mut self, ending: Ending, reason: Option<CloseReason>, late: bool) -> Option<StreamError<E>> {
        let Ending::Answered(answer) = ending else { return ending_of(ending, reason, late) };
        let (answer, entries) = answer.split();
        self.trailers = entries.into();
        ending_of(Ending::Answered(answer), reason, late)
    }

    #[inline]
    fn take_item(&mut self) -> Result<T, StreamError<E>> {
        match take::<T>(&self.frame, self.at) {
            Ok((item, behind)) => {
                self.note_consumed(behind - self.at);
                self.at = behind;
                item.map_err(StreamError::Decode)
            }
            Err(error) => {
                // Where the next one starts is not known.
                self.stop();
                Err(StreamError::Decode(error))
            }
        }
    }

    #[inline]
    fn note_consumed(&mut self, n: usize) {
        self.consumed += n;
        if self.consumed >= self.tell_at
            && let Some(raw) = &self.raw
        {
            raw.consume(std::mem::take(&mut self.consumed));
        }
    }

    #[cold]
    fn stop(&mut self) {
        self.raw = None;
        self.frame = Bytes::new();
        self.at = 0;
        self.frames.clear();
    }
}

impl<T: Wire, E: Wire> Stream for Incoming<T, E> {
    type Item = Result<T, StreamError<E>>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll_next_item(cx)
    }
}

impl<T: Wire, E: Wire> FusedStream for Incoming<T, E> {
    fn is_terminated(&self) -> bool {
        self.raw.is_none() && self.frames.is_empty() && self.at == self.frame.len()
    }
}

// Nothing in it is pinned.
impl<T, E> Unpin for Incoming<T, E> {}

/// Takes the item that starts at `at` and returns it with where it ends.
///
/// # Errors
/// [`DecodeError`] if it does not end within the frame. What is wrong inside an item is in the inner result.
#[inline]
fn take<T: Wire>(frame: &Bytes, at: usize) -> Result<(Result<T, DecodeError>, usize), DecodeError> {
    let mut r = Reader::from_bytes(frame, &Limits::DEFAULT);
    r.bytes(at)?;
    let len = r.len()?;
    let behind = frame.len() - (r.remaining() - len);
    let scope = r.enter_scope(len)?;
    let item = T::decode(&mut r);
    drop(scope);
    Ok((item, behind))
}

fn ending_of<E: Wire>(ending: Ending, reason: Option<CloseReason>, late: bool) -> Option<StreamError<E>> {
    let body = match ending {
        Ending::Answered(Answer::End(body)) if body.is_empty() => return None,
        Ending::Answered(Answer::End(body) | Answer::Error(body)) => body,
        Ending::Answered(Answer::Reply(_) | Answer::Attached(_)) => {
            return Some(StreamError::Decode(DecodeErrorKind::Custom("a reply instead of a stream").into()));
        }
        Ending::Answered(Answer::Lost { .. }) => {
            let reason = reason.unwrap_or_else(|| CloseReason::new(CloseCode::Lost, ""));
            return Some(StreamError::Disconnected(reason));
        }
        Ending::Over => return Some(StreamError::Status(Status::new(Code::Cancelled, "the call is over"))),
    };
    Some(match decode_failure(&body) {
        Ok(Failure::Application(payload)) => match decode_value(&payload, &Limits::DEFAULT) {
            Ok(error) => StreamError::Application(error),
            Err(error) => StreamError::Decode(error),
        },
        // Both sides watch the same deadline. Whoever is first, the caller is told the same.
        Ok(Failure::Status(status)) if late && status.code == Code::DeadlineExceeded => StreamError::Timeout,
        Ok(Failure::Status(status)) => StreamError::Status(status),
        Err(error) => StreamError::Decode(error),
    })
}

/// The receiving end of a stream without its types.
#[derive(Debug)]
pub(crate) struct RawIncoming {
    pub(super) shared: Arc<Shared>,
    key: Key,
    pub(super) window: usize,
    deadline: Option<Instant>,
}

enum Next {
    Items,
    End(Ending),
    Late,
}

impl RawIncoming {
    pub(super) fn new(shared: Arc<Shared>, key: Key, window: usize, deadline: Option<Instant>) -> Self {
        Self { shared, key, window, deadline }
    }

    fn is_late(&self) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= Instant::now())
    }

    fn poll(&self, consumed: usize, into: &mut VecDeque<Bytes>, cx: &Context<'_>) -> Poll<Next> {
        let mut state = self.shared.lock();
        let driver =
            if grant(&mut state, self.key, consumed) { self.shared.wake_driver(&mut state) } else { None };
        let late = self.is_late();
        let next = match state.flows.get(self.key) {
            None => Poll::Ready(Next::End(Ending::Over)),
            Some(flow) => {
                let found = flow.incoming.as_mut().is_some_and(|incoming| incoming.take(into));
                match &flow.end {
                    _ if found => Poll::Ready(Next::Items),
                    Some(end) => Poll::Ready(Next::End(end.clone())),
                    None if late => Poll::Ready(Next::Late),
                    None => {
                        match &mut flow.reader {
                            Some(reader) => reader.clone_from(cx.waker()),
                            reader => *reader = Some(cx.waker().clone()),
                        }
                        Poll::Pending
                    }
                }
            }
        };
        drop(state);
        wake([driver]);
        next
    }

    fn consume(&self, n: usize) {
        let mut state = self.shared.lock();
        if grant(&mut state, self.key, n) {
            let driver = self.shared.wake_driver(&mut state);
            drop(state);
            wake([driver]);
        }
    }
}

/// Notes what has been consumed, and grants it to the sender again when it is worth a frame.
fn grant(state: &mut State, key: Key, consumed: usize) -> bool {
    let gone = state.gone().is_some();
    let State { flows, out, .. } = state;
    let Some(flow) = flows.get(key) else { return false };
    let head = match flow.call {
        Owner::Ours(call) => Head::of_call(FrameKind::Credit, call.id()),
        Owner::Peers(id) => Head::of_upload(FrameKind::Credit, id),
    };
    let Some(n) = flow.incoming.as_mut().and_then(|incoming| incoming.consume(consumed)) else {
        return false;
    };
    if flow.end.is_some() || gone {
        return false;
    }
    // A varint is never too large.
    out.append_error(Cover::Sealed, head, 3, |w| w.put_varint(n)).is_ok()
}

impl Drop for RawIncoming {
    fn drop(&mut self) {
        let mut writer = None;
        let mut state = self.shared.lock();
        let driver = match state.flows.get(self.key) {
            Some(flow) if flow.end.is_none() => {
                let head = match flow.call {
                    // The call is over for both directions.
                    Owner::Ours(call) => {
                        flow.end = Some(Ending::Over);
                        writer = flow.writer.take();
                        let told = state.calls.abandon(call) && state.cancel(call.id());
                        told.then(|| Head::of_call(FrameKind::Cancel, call.id()))
                    }
                    Owner::Peers(id) => Some(Head::of_upload(FrameKind::Cancel, id)),
                };
                tell(&self.shared, &mut state, head)
            }
            _ => None,
        };
        if let Some(Flow { incoming: Some(incoming), .. }) = state.flows.get(self.key) {
            incoming.clear();
        }
        let flow = state.flows.release(self.key);
        let next = state.next_waiter();
        drop(state);
        drop(flow);
        wake([driver, next, writer]);
    }
}

/// Appends a frame without a payload, unless the goodbye has been said. Returns the driver's waker.
pub(super) fn tell(shared: &Shared, state: &mut State, head: Option<Head>) -> Option<std::task::Waker> {
    let head = head?;
    if state.gone().is_some() {
        return None;
    }
    // An empty payload is never too large.
    drop(state.out.append(Cover::Sealed, head, Metadata::default(), 0, |_| ()));
    shared.wake_driver(state)
}

impl Shared {
    /// A call of the peer's has an upload: what comes of it is kept for the handle from now on.
    pub(crate) fn expect_upload(self: &Arc<Self>, id: CallId, cover: Cover) -> RawIncoming {
        let window = self.setup.terms.window_in;
        let key = self.lock().flows.expect_upload(id, cover, window);
        RawIncoming::new(Arc::clone(self), key, window, None)
    }

    /// A call of the peer's with an upload has been answered.
    pub(crate) fn upload_over(&self, id: CallId) {
        let reader = self.lock().flows.upload_over(id);
        wake([reader]);
    }
}
