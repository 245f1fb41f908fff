//! The stream that servers answer with.

use std::{
    marker::PhantomData,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures_core::Stream;

/// An item of a stream, in a peer's own type.
pub(super) trait Numbered {
    fn new(number: i64, data: Bytes) -> Self;
}

/// So many items, each with its number and the same data.
#[derive(Debug)]
pub(super) struct Countdown<T> {
    next: i64,
    end: i64,
    data: Bytes,
    items: PhantomData<fn() -> T>,
}

impl<T> Countdown<T> {
    pub(super) fn new(items: u32, size: u32) -> Self {
        let size = (size as usize).min(ZEROS.len());
        let data = Bytes::from_static(&ZEROS[..size]);
        Self { next: 0, end: items.into(), data, items: PhantomData }
    }
}

impl<T: Numbered> Stream for Countdown<T> {
    type Item = T;

    #[inline]
    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<T>> {
        if self.next == self.end {
            return Poll::Ready(None);
        }
        let number = self.next;
        self.next += 1;
        Poll::Ready(Some(T::new(number, self.data.clone())))
    }
}

/// What all items consist of. It is static, so that handing out an item costs nothing but the item.
static ZEROS: [u8; 10_000] = [0; 10_000];
