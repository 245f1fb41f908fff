//! The stream that servers answer with.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures_core::Stream;

/// So many items, each with its number and the same data.
#[derive(Debug)]
pub(super) struct Numbered<T> {
    next: i64,
    end: i64,
    data: Bytes,
    make: fn(i64, Bytes) -> T,
}

impl<T> Numbered<T> {
    pub(super) fn new(items: u32, size: u32, make: fn(i64, Bytes) -> T) -> Self {
        Self { next: 0, end: items.into(), data: vec![0; size as usize].into(), make }
    }
}

impl<T> Stream for Numbered<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<T>> {
        if self.next == self.end {
            return Poll::Ready(None);
        }
        let item = (self.make)(self.next, self.data.clone());
        self.next += 1;
        Poll::Ready(Some(item))
    }
}
