//! Streams made by async code that hands out its items.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use futures_core::Stream;

use super::{Yielder, slot::Slot};

/// A stream of the items that async code hands out, and that ends where the code does.
///
/// The code is a part of the stream: it runs when an item is asked for, up to the place where it hands one out, and is
/// dropped with the stream. For items that are made elsewhere, in other tasks or on threads, there is
/// [`channel`](super::channel()).
///
/// ```
/// # use nalix_core::stream;
/// # use std::time::Duration;
/// let seconds = stream::generate(async |mut items| {
///     for n in 0..60 {
///         items.send(n).await;
///         tokio::time::sleep(Duration::from_secs(1)).await;
///     }
/// });
/// ```
pub fn generate<T, F, Fut>(code: F) -> Generate<T, Fut>
where
    F: FnOnce(Yielder<T>) -> Fut,
    Fut: Future<Output = ()>,
{
    Generate { running: Running::new(code) }
}

/// As [`generate`], with code that may fail: `?` in it makes the error the last item.
///
/// ```
/// # use nalix_core::{Status, stream};
/// # async fn page(number: u32) -> Result<Vec<String>, Status> { Ok(Vec::new()) }
/// let rows = stream::try_generate(async |mut items| {
///     for number in 0..10 {
///         for row in page(number).await? {
///             items.send(row).await;
///         }
///     }
///     Ok::<_, Status>(())
/// });
/// ```
pub fn try_generate<T, E, F, Fut>(code: F) -> TryGenerate<T, Fut>
where
    F: FnOnce(Yielder<T>) -> Fut,
    Fut: Future<Output = Result<(), E>>,
{
    TryGenerate { running: Running::new(code) }
}

/// The stream of [`generate`].
#[must_use = "streams do nothing unless they are polled"]
pub struct Generate<T, Fut> {
    running: Running<T, Fut>,
}

impl<T, Fut> fmt::Debug for Generate<T, Fut> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Generate").field("ended", &self.running.code.is_none()).finish_non_exhaustive()
    }
}

impl<T, Fut: Future<Output = ()>> Stream for Generate<T, Fut> {
    type Item = T;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        self.get_mut().running.poll(cx).map(|next| match next {
            Next::Item(item) => Some(item),
            Next::Returned(()) | Next::Ended => None,
        })
    }
}

/// The stream of [`try_generate`].
#[must_use = "streams do nothing unless they are polled"]
pub struct TryGenerate<T, Fut> {
    running: Running<T, Fut>,
}

impl<T, Fut> fmt::Debug for TryGenerate<T, Fut> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TryGenerate").field("ended", &self.running.code.is_none()).finish_non_exhaustive()
    }
}

impl<T, E, Fut: Future<Output = Result<(), E>>> Stream for TryGenerate<T, Fut> {
    type Item = Result<T, E>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().running.poll(cx).map(|next| match next {
            Next::Item(item) => Some(Ok(item)),
            Next::Returned(Err(error)) => Some(Err(error)),
            Next::Returned(Ok(())) | Next::Ended => None,
        })
    }
}

struct Running<T, Fut> {
    slot: Slot<T>,
    /// `None` once it has returned.
    code: Option<Pin<Box<Fut>>>,
}

enum Next<T, R> {
    Item(T),
    Returned(R),
    Ended,
}

impl<T, Fut: Future> Running<T, Fut> {
    fn new(code: impl FnOnce(Yielder<T>) -> Fut) -> Self {
        let slot = Slot::new();
        let code = Box::pin(code(slot.yielder()));
        Self { slot, code: Some(code) }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Next<T, Fut::Output>> {
        let Some(code) = &mut self.code else { return Poll::Ready(Next::Ended) };
        self.slot.begin();
        match code.as_mut().poll(cx) {
            Poll::Pending => self.slot.poll_take(cx).map(Next::Item),
            Poll::Ready(returned) => {
                self.code = None;
                Poll::Ready(Next::Returned(returned))
            }
        }
    }
}
