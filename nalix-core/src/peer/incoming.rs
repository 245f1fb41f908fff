//! The receiving end of a stream.

mod raw;

use std::{
    collections::VecDeque,
    fmt,
    future::poll_fn,
    marker::PhantomData,
    ops::Range,
    pin::Pin,
    ptr::fn_addr_eq,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures_core::{FusedStream, Stream};

use self::raw::Next;
pub(crate) use self::raw::RawIncoming;
pub(super) use self::raw::give_up;
use super::{
    StreamError,
    attached::Attached,
    calls::Answer,
    cut::{Cut, Unfit, find},
    flow::Ending,
};
use crate::{
    Wire,
    error::{DecodeError, DecodeErrorKind},
    frame::{Entries, decode_failure},
    packet::{NoError, decode_value},
    schema::{Contract, Describe, Fingerprint, Schema, SchemaBuilder, Type},
    status::{CloseCode, CloseReason, Code, Failure, Status},
    wire::{Decode, Limits, Reader},
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
    /// What such an item that is whole is lent from, and the layout of the type that items were last lent as.
    whole: Bytes,
    lent_as: Option<fn(&mut SchemaBuilder) -> Type>,
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
            whole: Bytes::new(),
            lent_as: None,
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

    /// The next item, lent: as a value that borrows from what has been received instead of owning what it holds, such as a
    /// struct with `&str` and `&[u8]` where the item has `String` and `Bytes`. It is gone when the next one is asked for.
    ///
    /// For streams of many small items, where owning each would be most of the work: nothing is allocated, and nothing counted.
    /// The layout of `V` must be that of the items; names of types do not matter.
    ///
    /// ```
    /// use nalix_core::{Connection, Wire, packet};
    ///
    /// #[derive(Wire)]
    /// struct Tick {
    ///     symbol: String,
    ///     price: u64,
    /// }
    ///
    /// #[derive(Wire)]
    /// struct TickRef<'a> {
    ///     symbol: &'a str,
    ///     price: u64,
    /// }
    ///
    /// #[packet(opcode = 0x4002, stream = Tick)]
    /// struct Watch;
    ///
    /// async fn highest(connection: Connection) -> Result<u64, Box<dyn std::error::Error>> {
    ///     let mut ticks = connection.stream(Watch).await?;
    ///     let mut highest = 0;
    ///     while let Some(tick) = ticks.next_as::<TickRef<'_>>().await {
    ///         let tick = tick?;
    ///         if tick.symbol == "NLX" {
    ///             highest = highest.max(tick.price);
    ///         }
    ///     }
    ///     Ok(highest)
    /// }
    /// ```
    ///
    /// # Errors
    /// As [`Incoming::next`]. Also [`StreamError::Decode`] if the layout of `V` is another; no item is taken then.
    ///
    /// Cancel safe, as [`Incoming::next`] is.
    pub async fn next_as<'a, V>(&'a mut self) -> Option<Result<V, StreamError<E>>>
    where
        V: Decode<'a> + Describe,
    {
        if !self.lent_as.is_some_and(|known| fn_addr_eq(known, V::describe as fn(&mut _) -> _)) {
            if !is_laid_out_alike::<T, V>() {
                return Some(Err(StreamError::Decode(another_layout())));
            }
            self.lent_as = Some(V::describe);
        }
        if !self.whole.is_empty() {
            self.whole = Bytes::new();
        }
        let found = match poll_fn(|cx| self.poll_find(cx)).await? {
            Ok(found) => found,
            Err(error) => return Some(Err(error)),
        };
        let bytes = match found {
            Found::Here(range) => &self.frame[range],
            Found::Whole(item) => {
                self.whole = item;
                &self.whole[..]
            }
        };
        Some(V::decode(&mut Reader::new(bytes, &Limits::DEFAULT)).map_err(StreamError::Decode))
    }

    #[inline]
    fn poll_next_item(&mut self, cx: &Context<'_>) -> Poll<Option<Result<T, StreamError<E>>>> {
        self.poll_find(cx).map(|found| {
            let item = match found? {
                Ok(Found::Here(range)) => take(&self.frame, range),
                Ok(Found::Whole(item)) => take(&item, 0..item.len()),
                Err(error) => return Some(Err(error)),
            };
            Some(item.map_err(StreamError::Decode))
        })
    }

    /// Takes the next item, and says where it is.
    #[inline]
    fn poll_find(&mut self, cx: &Context<'_>) -> Poll<Option<Result<Found, StreamError<E>>>> {
        loop {
            if self.at < self.frame.len() {
                match self.find_item() {
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
    fn find_item(&mut self) -> Option<Result<Found, StreamError<E>>> {
        if self.cut.is_some() {
            return self.go_on();
        }
        match find(&self.frame, self.at, self.raw.as_ref().map_or(usize::MAX, RawIncoming::max_item)) {
            Ok(Some(range)) => {
                self.note_consumed(range.end - self.at);
                self.at = range.end;
                Some(Ok(Found::Here(range)))
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
    fn go_on(&mut self) -> Option<Result<Found, StreamError<E>>> {
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
        Some(Ok(Found::Whole(whole.into_bytes())))
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
        self.whole = Bytes::new();
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

/// Where an item is.
enum Found {
    /// In this part of the frame.
    Here(Range<usize>),
    /// It has been put together.
    Whole(Bytes),
}

/// Decodes the item in these bytes.
#[inline]
fn take<T: Wire>(bytes: &Bytes, Range { start, end }: Range<usize>) -> Result<T, DecodeError> {
    let mut r = Reader::from_bytes(bytes, &Limits::DEFAULT);
    r.bytes(start)?;
    let scope = r.enter_scope(end - start)?;
    let item = T::decode(&mut r);
    drop(scope);
    item
}

#[cold]
fn is_laid_out_alike<T: Describe, V: Describe>() -> bool {
    let layout = |schema| Fingerprint::of(&Contract::new(schema, None, None));
    layout(Schema::of::<T>()) == layout(Schema::of::<V>())
}

#[cold]
fn another_layout() -> DecodeError {
    DecodeErrorKind::Custom("items lent as a type of another layout").into()
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
