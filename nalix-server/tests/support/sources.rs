//! Streams for handlers to return.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use futures_core::Stream;

/// A stream made of a function that is polled.
pub(crate) struct Source<F>(F);

/// A stream that yields what `f` does.
pub(crate) fn from_fn<T, F: FnMut(&mut Context<'_>) -> Poll<Option<T>> + Unpin>(f: F) -> Source<F> {
    Source(f)
}

impl<T, F: FnMut(&mut Context<'_>) -> Poll<Option<T>> + Unpin> Stream for Source<F> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        (self.0)(cx)
    }
}
