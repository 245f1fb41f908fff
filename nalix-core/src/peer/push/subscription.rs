//! Packets as a stream.

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures_core::{FusedStream, Stream};

use super::{
    mailbox::{Lagged, Mailbox, Queue},
    table::{Place, Pushes},
};
use crate::packet::Push;

/// The peer's one-way packets of one type, from when the subscription was made until the connection ends or this is
/// dropped. Made by [`Connection::subscribe`](crate::Connection::subscribe).
///
/// A [`Stream`] whose items are packets, in the order in which they were sent, and [`Lagged`] where packets had to be left
/// out. A packet is decoded once and shared by all its subscribers. When the connection has ended, what still waits comes
/// first, and then `None`.
#[must_use = "packets are queued for it until it is dropped"]
pub struct Subscription<T> {
    mailbox: Arc<Mailbox<T>>,
    /// Where it is in the table, until the end.
    place: Option<Place>,
}

impl<T> fmt::Debug for Subscription<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").field("mailbox", &self.mailbox).finish_non_exhaustive()
    }
}

impl<T: Push> Subscription<T> {
    pub(in crate::peer) fn new(pushes: &Arc<Pushes>, queue: Queue) -> Self {
        let mailbox = Arc::new(Mailbox::new(queue));
        let place = pushes.add::<T>(mailbox.clone());
        if place.is_none() {
            mailbox.close();
        }
        Self { mailbox, place }
    }
}

impl<T> Subscription<T> {
    /// Waits for the next packet, or for word that some were left out. `None` when the connection has ended. Cancel safe.
    pub async fn next(&mut self) -> Option<Result<Arc<T>, Lagged>> {
        std::future::poll_fn(|cx| self.poll(cx)).await
    }

    /// The next packet, if one waits. `None` says that none does now; whether more can come,
    /// [`Connection::close_reason`](crate::Connection::close_reason) says.
    #[allow(clippy::needless_pass_by_ref_mut, reason = "it has one reader, whichever way that reads")]
    pub fn try_next(&mut self) -> Option<Result<Arc<T>, Lagged>> {
        self.mailbox.try_next()
    }

    /// How many packets have been left out so far, since this subscriber was too slow.
    pub fn missed(&self) -> u64 {
        self.mailbox.missed()
    }

    fn poll(&mut self, cx: &Context<'_>) -> Poll<Option<Result<Arc<T>, Lagged>>> {
        let polled = self.mailbox.poll(cx);
        if matches!(polled, Poll::Ready(None)) {
            self.place = None;
        }
        polled
    }
}

impl<T> Stream for Subscription<T> {
    type Item = Result<Arc<T>, Lagged>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll(cx)
    }
}

impl<T> FusedStream for Subscription<T> {
    fn is_terminated(&self) -> bool {
        self.place.is_none()
    }
}
