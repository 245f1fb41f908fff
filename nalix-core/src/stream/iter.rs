//! Streams of what is there already, and of what is polled by hand.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use futures_core::Stream;

/// A stream of the items of an iterator.
///
/// ```
/// # use nalix_core::{Status, Stream, packet, packet_controller, stream};
/// # #[packet(opcode = 0x4f01, stream = String)]
/// # struct History;
/// # struct Chat { lines: Vec<String> }
/// # #[packet_controller]
/// # impl Chat {
/// #[packet]
/// fn history(&self, _: History) -> impl Stream<Item = String> {
///     stream::iter(self.lines.clone())
/// }
/// # }
/// ```
pub fn iter<I: IntoIterator>(items: I) -> Iter<I::IntoIter> {
    Iter { items: items.into_iter() }
}

/// A stream whose items a function makes when it is polled: [`Poll::Pending`] if there is none yet, in which case the
/// function sees to it that the context's waker is woken; `None` at the end, after which it is not called again by this
/// crate.
///
/// ```
/// # use nalix_core::stream;
/// # use std::{sync::mpsc, task::Poll};
/// let mut left = 3;
/// let countdown = stream::poll_fn(move |_cx| {
///     if left == 0 {
///         return Poll::Ready(None);
///     }
///     left -= 1;
///     Poll::Ready(Some(left))
/// });
/// ```
pub fn poll_fn<T, F>(poll: F) -> PollFn<F>
where
    F: FnMut(&mut Context<'_>) -> Poll<Option<T>>,
{
    PollFn { poll }
}

/// The stream of [`iter`].
#[derive(Debug, Clone)]
#[must_use = "streams do nothing unless they are polled"]
pub struct Iter<I> {
    items: I,
}

// The iterator is never pinned.
impl<I> Unpin for Iter<I> {}

impl<I: Iterator> Stream for Iter<I> {
    type Item = I::Item;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<I::Item>> {
        Poll::Ready(self.items.next())
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.items.size_hint()
    }
}

/// The stream of [`poll_fn`].
#[must_use = "streams do nothing unless they are polled"]
pub struct PollFn<F> {
    poll: F,
}

// The function is never pinned.
impl<F> Unpin for PollFn<F> {}

impl<F> fmt::Debug for PollFn<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PollFn").finish_non_exhaustive()
    }
}

impl<T, F> Stream for PollFn<F>
where
    F: FnMut(&mut Context<'_>) -> Poll<Option<T>>,
{
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        (self.poll)(cx)
    }
}
