//! The receiving end of a stream.

use std::{
    collections::VecDeque,
    fmt,
    future::poll_fn,
    marker::PhantomData,
    ops::Range,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use futures_core::{FusedStream, Stream};
use tokio::time::Instant;

use super::{
    StreamError,
    attached::Attached,
    calls::Answer,
    cut::{Cut, Unfit, find},
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
/// It holds at most its window (the `stream_window` option), and all streams of a connection together no more than the
/// `stream_budget` option says: the sender is given room again when items have been taken out of here. An item that is longer is
/// put together while it is asked for.
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
    /// An item of which a part has come.
    cut: Option<Box<Cut>>,
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
        let tell_at = raw.tell_at;
        Self { raw: Some(raw), tell_at, ..Self::ended() }
    }

    /// One that has no items.
    pub(crate) fn ended() -> Self {
        Self {
            raw: None,
            frame: Bytes::new(),
            at: 0,
            frames: VecDeque::new(),
            cut: None,
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
                match self.take_item() {
                    Some(item) => return Poll::Ready(Some(item)),
                    // It goes on in the next frame.
                    None => continue,
                }
            }
            if let Some(frame) = self.frames.pop_front() {
                (self.frame, self.at) = (frame, 0);
                continue;
            }
            self.frame = Bytes::new();
            self.at = 0;
            let Some(raw) = &mut self.raw else { return Poll::Ready(None) };
            let consumed = std::mem::take(&mut self.consumed);
            let polled = raw.poll(consumed, &mut self.frames, cx);
            self.tell_at = raw.tell_at;
            match polled {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Next::Items) => {}
                Poll::Ready(Next::End(ending)) => {
                    let late = raw.is_late();
                    let reason = raw.shared.close_reason();
                    let cut = self.cut.is_some();
                    self.stop();
                    let end = self.end_of(ending, reason, late);
                    let end = end.or_else(|| cut.then(|| StreamError::Decode(cut_off())));
                    return Poll::Ready(end.map(Err));
                }
                Poll::Ready(Next::Late) => {
                    self.stop();
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

    /// The next item, unless it goes on in a frame that is not here yet.
    #[inline]
    fn take_item(&mut self) -> Option<Result<T, StreamError<E>>> {
        if self.cut.is_some() {
            return self.go_on();
        }
        match find(&self.frame, self.at, self.raw.as_ref().map_or(usize::MAX, RawIncoming::max_item)) {
            Ok(Some(Range { start, end })) => {
                let item = take(&self.frame, start, end);
                self.note_consumed(end - self.at);
                self.at = end;
                Some(item.map_err(StreamError::Decode))
            }
            Ok(None) => {
                self.cut = Some(Box::default());
                self.go_on()
            }
            Err(error) => {
                // Where the next one starts is not known.
                self.stop();
                Some(Err(StreamError::Decode(error)))
            }
        }
    }

    /// Goes on with an item that does not lie in one frame.
    #[inline(never)]
    fn go_on(&mut self) -> Option<Result<T, StreamError<E>>> {
        let cut = self.cut.as_mut()?;
        let Some(raw) = &mut self.raw else {
            // There is nobody it could come from.
            self.stop();
            return Some(Err(StreamError::Decode(cut_off())));
        };
        match cut.add(&self.frame[self.at..], raw.max_item(), |n| raw.assemble(n)) {
            Ok(used) => {
                self.at += used;
                if self.at == self.frame.len() {
                    // Lets go of the receive buffer.
                    (self.frame, self.at) = (Bytes::new(), 0);
                }
                self.note_consumed(used);
            }
            Err(unfit) => {
                self.stop();
                return Some(Err(match unfit {
                    Unfit::Bad(error) => StreamError::Decode(error),
                    Unfit::NoRoom => StreamError::Status(no_room()),
                }));
            }
        }
        let whole = self.cut.take_if(|cut| cut.is_whole())?;
        if let Some(raw) = &mut self.raw {
            raw.assembled();
        }
        let item = whole.into_bytes();
        Some(take(&item, 0, item.len()).map_err(StreamError::Decode))
    }

    #[inline]
    fn note_consumed(&mut self, n: usize) {
        self.consumed += n;
        if self.consumed >= self.tell_at
            && let Some(raw) = &mut self.raw
        {
            raw.consume(std::mem::take(&mut self.consumed));
            self.tell_at = raw.tell_at;
        }
    }

    #[cold]
    fn stop(&mut self) {
        self.raw = None;
        self.cut = None;
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

/// Decodes the item in these bytes.
#[inline]
fn take<T: Wire>(bytes: &Bytes, start: usize, end: usize) -> Result<T, DecodeError> {
    let mut r = Reader::from_bytes(bytes, &Limits::DEFAULT);
    r.bytes(start)?;
    let scope = r.enter_scope(end - start)?;
    let item = T::decode(&mut r);
    drop(scope);
    item
}

#[cold]
fn cut_off() -> DecodeError {
    DecodeErrorKind::Custom("a stream that ends in the middle of an item").into()
}

#[cold]
fn no_room() -> Status {
    Status::new(Code::ResourceExhausted, "too many large items at a time")
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
    /// From how many consumed bytes on the connection is told of them.
    tell_at: usize,
    /// What it takes of the connection's room for large items.
    reserved: usize,
    deadline: Option<Instant>,
}

enum Next {
    Items,
    End(Ending),
    Late,
}

impl RawIncoming {
    pub(super) fn new(shared: Arc<Shared>, key: Key, deadline: Option<Instant>) -> Self {
        let tell_at = shared.setup.terms.window_in.div_ceil(2).max(1);
        Self { shared, key, tell_at, reserved: 0, deadline }
    }

    fn is_late(&self) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= Instant::now())
    }

    /// The longest item, in bytes.
    #[inline]
    fn max_item(&self) -> usize {
        self.shared.setup.terms.message_in
    }

    fn poll(&mut self, consumed: usize, into: &mut VecDeque<Bytes>, cx: &Context<'_>) -> Poll<Next> {
        let mut state = self.shared.lock();
        let told = grant(&mut state, self.key, consumed, &mut self.tell_at);
        let driver = if told { self.shared.wake_driver(&mut state) } else { None };
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

    fn consume(&mut self, n: usize) {
        let mut state = self.shared.lock();
        if grant(&mut state, self.key, n, &mut self.tell_at) {
            let driver = self.shared.wake_driver(&mut state);
            drop(state);
            wake([driver]);
        }
    }

    /// Makes room for a large item of so many bytes. Returns whether there is any.
    fn assemble(&mut self, n: usize) -> bool {
        let room = self.shared.lock().flows.budget.assemble(n);
        self.reserved = if room { n } else { 0 };
        room
    }

    /// Gives the room of a large item back.
    fn assembled(&mut self) {
        let reserved = std::mem::take(&mut self.reserved);
        if reserved > 0 {
            self.shared.lock().flows.budget.assembled(reserved);
        }
    }
}

/// Notes what has been consumed, and grants it to the sender again when it is worth a frame. `tell_at` is
/// after how many more.
fn grant(state: &mut State, key: Key, consumed: usize, tell_at: &mut usize) -> bool {
    if consumed == 0 {
        return false;
    }
    let gone = state.gone().is_some();
    let State { flows, out, .. } = state;
    let Some((call, n)) = flows.consume(key, consumed, tell_at) else { return false };
    if gone {
        return false;
    }
    let head = match call {
        Owner::Ours(call) => Head::of_call(FrameKind::Credit, call.id()),
        Owner::Peers(id) => Head::of_upload(FrameKind::Credit, id),
    };
    // A varint is never too large.
    out.append_error(Cover::Sealed, head, 3, |w| w.put_varint(n)).is_ok()
}

/// Gives a call up, and tells the peer if it knows of it. Returns the driver's waker.
pub(super) fn give_up(shared: &Shared, state: &mut State, call: super::calls::Key) -> Option<Waker> {
    if !state.calls.abandon(call) || state.gone().is_some() {
        return None;
    }
    if state.cancel(call.id()) {
        return tell(shared, state, Some(Head::of_call(FrameKind::Cancel, call.id())));
    }
    shared.wake_driver(state)
}

impl Drop for RawIncoming {
    fn drop(&mut self) {
        let mut writer = None;
        let mut state = self.shared.lock();
        let driver = match state.flows.get(self.key) {
            Some(flow) if flow.end.is_none() => {
                match flow.call {
                    // The call is over for both directions.
                    Owner::Ours(call) => {
                        writer = flow.writer.take();
                        state.flows.end(self.key, Ending::Over);
                        give_up(&self.shared, &mut state, call)
                    }
                    Owner::Peers(id) => {
                        let head = Head::of_upload(FrameKind::Cancel, id);
                        tell(&self.shared, &mut state, Some(head))
                    }
                }
            }
            _ => None,
        };
        if let Some(Flow { incoming: Some(incoming), .. }) = state.flows.get(self.key) {
            incoming.clear();
        }
        state.flows.budget.assembled(self.reserved);
        let flow = state.flows.release(self.key);
        let next = state.next_waiter();
        drop(state);
        drop(flow);
        wake([driver, next, writer]);
    }
}

/// Appends a frame without a payload, unless the goodbye has been said. Returns the driver's waker.
pub(super) fn tell(shared: &Shared, state: &mut State, head: Option<Head>) -> Option<Waker> {
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
        let key = self.lock().flows.expect_upload(id, cover, Instant::now());
        RawIncoming::new(Arc::clone(self), key, None)
    }

    /// A call of the peer's with an upload has been answered.
    pub(crate) fn upload_over(&self, id: CallId) {
        let reader = self.lock().flows.upload_over(id);
        wake([reader]);
    }
}
