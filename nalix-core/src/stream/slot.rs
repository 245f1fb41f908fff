//! The place of one item between async code and the stream that it is a part of.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

/// Hands out the items of [`generate`](super::generate()).
///
/// It is for the code that it was given to: what is sent when that has returned is never taken, and the future of it never
/// resolves.
#[must_use = "without it no item is handed out"]
pub struct Yielder<T> {
    place: Arc<Place<T>>,
}

impl<T> fmt::Debug for Yielder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Yielder").finish_non_exhaustive()
    }
}

impl<T> Yielder<T> {
    /// Hands out an item: done when the stream is asked for the next one.
    ///
    /// Cancel safe: dropped before it is done, it has handed out nothing, unless the item has been taken.
    pub fn send(&mut self, item: T) -> Put<'_, T> {
        Put { yielder: self, item: Some(item), lies_there: false }
    }
}

/// The future of an item that is handed out: done when the stream is asked for the next one.
#[must_use = "futures do nothing unless they are awaited"]
pub struct Put<'a, T> {
    /// Nobody else hands out meanwhile.
    yielder: &'a mut Yielder<T>,
    item: Option<T>,
    /// Whether the item is in the place, or was there and has been taken.
    lies_there: bool,
}

// The item is never pinned.
impl<T> Unpin for Put<'_, T> {}

impl<T> fmt::Debug for Put<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Put").finish_non_exhaustive()
    }
}

impl<T> Future for Put<'_, T> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let mut state = this.yielder.place.lock();
        if this.lies_there && state.item.is_none() {
            this.lies_there = false;
            return Poll::Ready(());
        }
        if state.item.is_none() {
            let Some(item) = this.item.take() else { return Poll::Ready(()) };
            state.item = Some(item);
            this.lies_there = true;
            // The stream looks by itself after it has polled the code.
            let reader = if state.polling { None } else { state.reader.take() };
            note(&mut state.writer, cx);
            drop(state);
            if let Some(reader) = reader {
                reader.wake();
            }
            return Poll::Pending;
        }
        // Its own lies there still; or that of a future that was leaked.
        note(&mut state.writer, cx);
        Poll::Pending
    }
}

impl<T> Drop for Put<'_, T> {
    fn drop(&mut self) {
        if self.lies_there {
            let item = self.yielder.place.lock().item.take();
            // Outside of the lock: it is the user's.
            drop(item);
        }
    }
}

/// The stream's side.
pub(super) struct Slot<T> {
    place: Arc<Place<T>>,
}

impl<T> Slot<T> {
    pub(super) fn new() -> Self {
        let state = State { item: None, polling: false, reader: None, writer: None };
        Self { place: Arc::new(Place { state: Mutex::new(state) }) }
    }

    pub(super) fn yielder(&self) -> Yielder<T> {
        Yielder { place: Arc::clone(&self.place) }
    }

    /// Before the code is polled, which is followed by a look at the place.
    pub(super) fn begin(&self) {
        self.place.lock().polling = true;
    }

    /// Takes what lies there.
    pub(super) fn poll_take(&self, cx: &Context<'_>) -> Poll<T> {
        let mut state = self.place.lock();
        state.polling = false;
        let Some(item) = state.item.take() else {
            note(&mut state.reader, cx);
            return Poll::Pending;
        };
        // Code that waits with the waker of the stream is polled with that, when the next item is asked for.
        let elsewhere = state.writer.as_ref().is_some_and(|writer| !writer.will_wake(cx.waker()));
        let writer = if elsewhere { state.writer.take() } else { None };
        drop(state);
        if let Some(writer) = writer {
            writer.wake();
        }
        Poll::Ready(item)
    }
}

struct Place<T> {
    state: Mutex<State<T>>,
}

struct State<T> {
    item: Option<T>,
    /// Whether the stream polls the code at the moment.
    polling: bool,
    /// The stream's, if it waits.
    reader: Option<Waker>,
    /// The code's, if it waits until its item has been taken.
    writer: Option<Waker>,
}

impl<T> Place<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn note(place: &mut Option<Waker>, cx: &Context<'_>) {
    match place {
        Some(waker) => waker.clone_from(cx.waker()),
        None => *place = Some(cx.waker().clone()),
    }
}
