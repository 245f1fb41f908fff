//! Streams made of a state and a function.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use futures_core::Stream;

/// A stream that an async function makes item by item: it is given the state and returns an item with the next state, or
/// `None` at the end. It is called when an item is asked for.
///
/// ```
/// # use nalix_core::stream;
/// let squares = stream::unfold(0_u64, async |n| (n < 10).then_some((n * n, n + 1)));
/// ```
///
/// An async closure that uses variables from outside is none that can be called again; a closure that returns an async block
/// is:
///
/// ```
/// # use nalix_core::stream;
/// # let factor = 3;
/// let multiples = stream::unfold(0_u64, move |n| async move { Some((n * factor, n + 1)) });
/// ```
pub fn unfold<S, T, F, Fut>(state: S, f: F) -> Unfold<S, F, Fut>
where
    F: FnMut(S) -> Fut,
    Fut: Future<Output = Option<(T, S)>>,
{
    Unfold { steps: Steps::new(state, f) }
}

/// As [`unfold`], with a function that may fail. An error is the last item.
///
/// ```
/// use nalix_core::{Bytes, Failure, Status, Stream, packet, packet_controller, stream};
/// use tokio::io::{AsyncRead, AsyncReadExt};
///
/// #[packet(opcode = 0x4f03, stream = Bytes)]
/// struct Get;
///
/// struct Files;
///
/// #[packet_controller]
/// impl Files {
///     #[packet]
///     async fn get(&self, _: Get) -> Result<impl Stream<Item = Result<Bytes, Status>>, Status> {
///         Ok(stream::try_unfold(open().await?, async |mut file| {
///             let mut chunk = vec![0; 16_000];
///             let len = file.read(&mut chunk).await.map_err(|e| Status::internal(e.to_string()))?;
///             chunk.truncate(len);
///             Ok((len > 0).then(|| (chunk.into(), file)))
///         }))
///     }
/// }
/// # async fn open() -> Result<impl AsyncRead + Unpin + Send, Status> { Ok(&[0_u8; 40_000][..]) }
/// ```
pub fn try_unfold<S, T, E, F, Fut>(state: S, f: F) -> TryUnfold<S, F, Fut>
where
    F: FnMut(S) -> Fut,
    Fut: Future<Output = Result<Option<(T, S)>, E>>,
{
    TryUnfold { steps: Steps::new(state, f) }
}

/// The stream of [`unfold`].
#[must_use = "streams do nothing unless they are polled"]
pub struct Unfold<S, F, Fut> {
    steps: Steps<S, F, Fut>,
}

impl<S, F, Fut> fmt::Debug for Unfold<S, F, Fut> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unfold").finish_non_exhaustive()
    }
}

impl<S, T, F, Fut> Stream for Unfold<S, F, Fut>
where
    F: FnMut(S) -> Fut,
    Fut: Future<Output = Option<(T, S)>>,
{
    type Item = T;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let steps = &mut self.get_mut().steps;
        Poll::Ready(ready!(steps.poll(cx)).flatten().map(|(item, state)| {
            steps.state = Some(state);
            item
        }))
    }
}

/// The stream of [`try_unfold`].
#[must_use = "streams do nothing unless they are polled"]
pub struct TryUnfold<S, F, Fut> {
    steps: Steps<S, F, Fut>,
}

impl<S, F, Fut> fmt::Debug for TryUnfold<S, F, Fut> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TryUnfold").finish_non_exhaustive()
    }
}

impl<S, T, E, F, Fut> Stream for TryUnfold<S, F, Fut>
where
    F: FnMut(S) -> Fut,
    Fut: Future<Output = Result<Option<(T, S)>, E>>,
{
    type Item = Result<T, E>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let steps = &mut self.get_mut().steps;
        Poll::Ready(match ready!(steps.poll(cx)) {
            Some(Ok(Some((item, state)))) => {
                steps.state = Some(state);
                Some(Ok(item))
            }
            Some(Err(error)) => Some(Err(error)),
            Some(Ok(None)) | None => None,
        })
    }
}

/// Without a state and without a step that is being made, there are no more.
struct Steps<S, F, Fut> {
    state: Option<S>,
    f: F,
    /// One place for all of them, so that a step costs no allocation.
    step: Pin<Box<Option<Fut>>>,
}

// What is pinned is in the box.
impl<S, F, Fut> Unpin for Steps<S, F, Fut> {}

impl<S, F, Fut> Steps<S, F, Fut>
where
    F: FnMut(S) -> Fut,
    Fut: Future,
{
    fn new(state: S, f: F) -> Self {
        Self { state: Some(state), f, step: Box::pin(None) }
    }

    /// What the next step results in; `None` if there is none.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Fut::Output>> {
        if let Some(state) = self.state.take() {
            self.step.set(Some((self.f)(state)));
        }
        let Some(step) = self.step.as_mut().as_pin_mut() else { return Poll::Ready(None) };
        let result = ready!(step.poll(cx));
        self.step.set(None);
        Poll::Ready(Some(result))
    }
}
