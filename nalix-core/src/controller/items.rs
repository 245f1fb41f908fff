//! Between the stream that a handler has returned and the driver that sends its items.
//!
//! The stream is polled where its handler runs, as a part of the handler's future: for most, that is in the driver, and a
//! batch costs no hand-over. What it yields is encoded into a buffer that the driver takes away; there is never more in it
//! than the driver has allowed.

use std::{
    fmt,
    future::poll_fn,
    pin::{Pin, pin},
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use futures_core::Stream;

use super::{IntoItem, Reply, ReplyBuffer, unsendable};
use crate::{
    packet::Streams,
    session::max_items,
    status::{Failure, Status},
    wire::append_item,
};

/// Where the items of one stream are put.
pub(crate) struct Items {
    max_message: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Items that the driver has not taken, each with its length in front.
    buf: Vec<u8>,
    /// No item is added while there are this many bytes.
    allowed: usize,
    /// Whether the handler has returned its stream.
    begun: bool,
    /// The stream's, if it waits until more is allowed.
    parked: Option<Waker>,
    /// Tells the driver that there is something to take.
    collector: Option<Waker>,
}

impl fmt::Debug for Items {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Items may hold secrets.
        f.debug_struct("Items").finish_non_exhaustive()
    }
}

impl Items {
    /// For items of at most `max_message` bytes.
    pub(crate) fn new(max_message: usize) -> Self {
        Self { max_message, state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets whom to wake when there is something to take, if the stream is polled elsewhere.
    pub(crate) fn set_collector(&self, waker: &Waker) {
        self.lock().collector = Some(waker.clone());
    }

    /// Allows as many bytes as are not yet taken, up to this number. Only a single item may be longer.
    pub(crate) fn allow(&self, bytes: usize) {
        let mut state = self.lock();
        state.allowed = bytes;
        let parked = if state.buf.len() < bytes { state.parked.take() } else { None };
        drop(state);
        if let Some(parked) = parked {
            parked.wake();
        }
    }

    /// Takes what there is, and leaves `spare` to be filled. Nothing more is added until it is allowed again. Says whether
    /// the handler has returned its stream.
    pub(crate) fn take(&self, spare: Vec<u8>) -> (Vec<u8>, bool) {
        let mut state = self.lock();
        if state.buf.is_empty() {
            return (spare, state.begun);
        }
        state.allowed = 0;
        (std::mem::replace(&mut state.buf, spare), state.begun)
    }

    /// Moves items from the stream into the buffer. Ready when the stream has ended.
    fn poll_fill<P: Streams, S: Stream<Item: IntoItem<P, M>>, M>(
        &self,
        mut stream: Pin<&mut S>,
        carry: &mut Vec<u8>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Failure<P::Error>>> {
        let mut state = self.lock();
        state.begun = true;
        // An item that did not fit the last batch begins the next.
        if state.buf.len() >= state.allowed || !(carry.is_empty() || state.buf.is_empty()) {
            state.parked = Some(cx.waker().clone());
            return self.leave(state, cx, Poll::Pending);
        }
        let allowed = state.allowed;
        let buf = std::mem::take(&mut state.buf);
        // The stream is user code: it may take long, or panic.
        drop(state);
        let mut filling = Filling { items: self, whole: buf.len(), buf };
        if !carry.is_empty() {
            std::mem::swap(&mut filling.buf, carry);
            filling.whole = filling.buf.len();
        }
        let most = allowed.min(max_items(self.max_message));
        let mut full = true;
        let mut end = Poll::Pending;
        // One that is beyond what is allowed comes alone, and nothing behind it before it has gone.
        while filling.whole < allowed {
            let item = match stream.as_mut().poll_next(cx) {
                Poll::Ready(Some(item)) => item.into_item(),
                Poll::Ready(None) => {
                    end = Poll::Ready(Ok(()));
                    break;
                }
                Poll::Pending => {
                    full = false;
                    break;
                }
            };
            let appended = item.and_then(|item| {
                append_item(&mut filling.buf, &item, self.max_message)
                    .map_err(|error| Failure::Status(unsendable(&error)))
            });
            if let Err(failure) = appended {
                end = Poll::Ready(Err(failure));
                break;
            }
            if filling.whole > 0 && filling.buf.len() > most {
                // Begins the next batch.
                carry.extend_from_slice(&filling.buf[filling.whole..]);
                break;
            }
            filling.whole = filling.buf.len();
        }
        drop(filling);
        let mut state = self.lock();
        if full && end.is_pending() {
            if state.buf.len() < state.allowed && carry.is_empty() {
                // More has been allowed meanwhile.
                cx.waker().wake_by_ref();
            } else {
                state.parked = Some(cx.waker().clone());
            }
        }
        self.leave(state, cx, end)
    }

    /// Lets the driver know, unless it is the driver who polls: it will look anyway.
    fn leave<T>(&self, state: MutexGuard<'_, State>, cx: &Context<'_>, result: T) -> T {
        let collector =
            state.collector.as_ref().filter(|collector| !collector.will_wake(cx.waker())).cloned();
        drop(state);
        if let Some(collector) = collector {
            collector.wake();
        }
        result
    }
}

/// A buffer that is being filled, and given back with whole items in it, also if the stream or an item panics.
struct Filling<'a> {
    items: &'a Items,
    buf: Vec<u8>,
    whole: usize,
}

impl Drop for Filling<'_> {
    fn drop(&mut self) {
        let mut buf = std::mem::take(&mut self.buf);
        buf.truncate(self.whole);
        self.items.lock().buf = buf;
    }
}

/// Sends all items of a stream, and makes the reply that ends it.
pub(super) async fn send_items<P: Streams, S: Stream<Item: IntoItem<P, M>>, M>(
    stream: S,
    buffer: ReplyBuffer,
) -> Reply {
    let Some(items) = buffer.items().cloned() else {
        return buffer.status(Status::internal("nobody takes the items of this stream"));
    };
    let mut carry = Vec::new();
    let end = {
        let mut stream = pin!(stream);
        poll_fn(|cx| items.poll_fill::<P, S, M>(stream.as_mut(), &mut carry, cx)).await
    };
    match end {
        Ok(()) => buffer.end(),
        Err(failure) => buffer.failure(failure.into()),
    }
}
