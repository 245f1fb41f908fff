//! A stream that is fed from elsewhere.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use futures_core::Stream;
use tokio::sync::{Semaphore, mpsc};

use super::{Closed, TrySendError};

/// A stream of what senders put in, from other tasks or threads, with room for `capacity` items, at least 1.
///
/// The stream ends when all senders have been dropped. When it is dropped itself, for instance since its reader has stopped
/// or gone, the senders learn that: [`Sender::send`] fails, and [`Sender::closed`] resolves.
///
/// Too small a capacity makes producers wait for a change of tasks at every item; too large a one lets each stream hold that
/// many items that have not been asked for.
///
/// ```
/// use nalix_core::{Stream, packet, packet_controller, stream};
///
/// #[packet(opcode = 0x4f02, stream = u32)]
/// struct Watch;
///
/// struct Sensors;
///
/// #[packet_controller]
/// impl Sensors {
///     #[packet]
///     fn watch(&self, _: Watch) -> impl Stream<Item = u32> {
///         let (sender, items) = stream::channel(16);
///         tokio::spawn(async move {
///             loop {
///                 let value = measure().await;
///                 if sender.send(value).await.is_err() {
///                     break; // nobody reads any more
///                 }
///             }
///         });
///         items
///     }
/// }
/// # async fn measure() -> u32 { 1 }
/// ```
pub fn channel<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let (sender, receiver) = mpsc::channel(capacity.clamp(1, Semaphore::MAX_PERMITS));
    (Sender { inner: sender }, Receiver { inner: receiver })
}

/// Puts items into the stream of a [`channel`]. Clones put into the same one.
pub struct Sender<T> {
    inner: mpsc::Sender<T>,
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("closed", &self.is_closed()).finish_non_exhaustive()
    }
}

impl<T> Sender<T> {
    /// Puts an item in, when there is room for it.
    ///
    /// Cancel safe: dropped before it is done, it has put nothing in, and the item is dropped with it.
    ///
    /// # Errors
    /// [`Closed`] if the stream has been dropped. One that is in may nevertheless never be read.
    pub async fn send(&self, item: T) -> Result<(), Closed<T>> {
        self.inner.send(item).await.map_err(|error| Closed(error.0))
    }

    /// Puts an item in if there is room for it now.
    ///
    /// # Errors
    /// [`TrySendError`] gives the item back.
    pub fn try_send(&self, item: T) -> Result<(), TrySendError<T>> {
        self.inner.try_send(item).map_err(|error| match error {
            mpsc::error::TrySendError::Full(item) => TrySendError::Full(item),
            mpsc::error::TrySendError::Closed(item) => TrySendError::Closed(item),
        })
    }

    /// Puts an item in, and blocks the thread until there is room for it: for threads that are none of an async runtime, and
    /// handlers that are marked `blocking`.
    ///
    /// # Errors
    /// [`Closed`] if the stream has been dropped.
    ///
    /// # Panics
    /// In async code, which must not block.
    pub fn blocking_send(&self, item: T) -> Result<(), Closed<T>> {
        self.inner.blocking_send(item).map_err(|error| Closed(error.0))
    }

    /// Resolves when the stream has been dropped, and what is put in would be in vain. Cancel safe.
    pub async fn closed(&self) {
        self.inner.closed().await;
    }

    /// Whether the stream has been dropped.
    pub fn is_closed(&self) -> bool {
        self.inner.is_closed()
    }
}

/// The stream of a [`channel`]. It can be made of a receiver of tokio's, too.
#[must_use = "dropping it lets the senders know that nobody reads"]
pub struct Receiver<T> {
    inner: mpsc::Receiver<T>,
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").field("waiting", &self.inner.len()).finish_non_exhaustive()
    }
}

impl<T> From<mpsc::Receiver<T>> for Receiver<T> {
    fn from(inner: mpsc::Receiver<T>) -> Self {
        Self { inner }
    }
}

impl<T> Stream for Receiver<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        self.inner.poll_recv(cx)
    }
}
