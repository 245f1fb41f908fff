//! What the handler of a packet with `stream` may return, and what that of one with `upload` is given.

use std::future::Future;

use futures_core::Stream;

use super::{
    IntoFailure, Outcome, Reply, ReplyBuffer, Respond,
    items::send_items,
    respond_marker::{
        Attached, Fallible, FallibleUpload, FallibleUploadAttached, Items, Streamed, UploadValue,
    },
};
use crate::{
    packet::{Streams, UploadRequest, Uploads},
    peer::{Incoming, RawIncoming, Response},
    status::Failure,
};

/// A value that a handler of packet `P` may return where its return type says `impl Stream`.
///
/// The stream may borrow from the controller. `M` only tells the implementations apart; it is always inferred.
#[diagnostic::on_unimplemented(
    message = "a handler of `{P}` cannot return `{Self}`",
    label = "not a stream for `{P}`",
    note = "a handler of a packet with `stream = T` returns a `Stream + Send` of `T`, or of `Result<T, E>` where `E` is the \
            packet's `error` type, `Status` or `Failure<_>`; or a `Result` of such a stream. Handlers of other packets \
            return no `impl Trait`"
)]
pub trait RespondStream<P, M>: Sized {
    /// Sends the items, then the end.
    fn respond_stream(self, buffer: ReplyBuffer) -> impl Future<Output = Reply> + Send;
}

impl<P: Streams, S: Stream<Item: IntoItem<P, M>> + Send, M> RespondStream<P, Items<M>> for S {
    fn respond_stream(self, buffer: ReplyBuffer) -> impl Future<Output = Reply> + Send {
        send_items::<P, S, M>(self, buffer)
    }
}

impl<P, S, F, M, N> RespondStream<P, Fallible<(M, N)>> for Result<S, F>
where
    P: Streams,
    S: Stream<Item: IntoItem<P, M>> + Send,
    F: IntoFailure<P::Error, N> + Send,
{
    async fn respond_stream(self, buffer: ReplyBuffer) -> Reply {
        match self {
            Ok(stream) => send_items::<P, S, M>(stream, buffer).await,
            Err(failure) => buffer.failure(failure.into_response()),
        }
    }
}

/// What is attached travels with the end of the stream, whichever that is.
impl<P, S: RespondStream<P, M> + Send, M> RespondStream<P, Attached<M>> for Response<S> {
    async fn respond_stream(self, buffer: ReplyBuffer) -> Reply {
        let (stream, attached) = self.into_parts();
        stream.respond_stream(buffer).await.attach(attached)
    }
}

impl<P, S, F, M, N> RespondStream<P, Fallible<(Attached<M>, N)>> for Result<Response<S>, F>
where
    P: Streams,
    S: Stream<Item: IntoItem<P, M>> + Send,
    F: IntoFailure<P::Error, N> + Send,
{
    async fn respond_stream(self, buffer: ReplyBuffer) -> Reply {
        match self {
            Ok(stream) => RespondStream::<P, Attached<Items<M>>>::respond_stream(stream, buffer).await,
            Err(failure) => buffer.failure(failure.into_response()),
        }
    }
}

/// Never applies; see the one of [`Respond`].
impl<P, T: super::respond::Unreturnable + Send> RespondStream<P, super::respond::No> for T {
    async fn respond_stream(self, buffer: ReplyBuffer) -> Reply {
        buffer.nothing()
    }
}

/// Streams whose type has a name own what they need, and can be returned from any handler.
impl<P, S, M> Respond<P, Streamed<M>> for S
where
    P: Streams + 'static,
    S: RespondStream<P, M> + Send + 'static,
    M: 'static,
{
    fn respond(self, buffer: ReplyBuffer) -> Outcome {
        Outcome::Pending(Box::pin(async move { self.respond_stream(buffer).await }))
    }
}

impl<P: UploadRequest> Respond<P, UploadValue> for P::Reply {
    fn respond(self, buffer: ReplyBuffer) -> Outcome {
        buffer.value(&self).into()
    }
}

impl<P: UploadRequest, F: IntoFailure<P::Error, M>, M> Respond<P, FallibleUpload<M>> for Result<P::Reply, F> {
    fn respond(self, buffer: ReplyBuffer) -> Outcome {
        match self {
            Ok(reply) => buffer.value(&reply),
            Err(failure) => buffer.failure(failure.into_response()),
        }
        .into()
    }
}

impl<P: UploadRequest, F: IntoFailure<P::Error, M>, M> Respond<P, FallibleUploadAttached<M>>
    for Result<Response<P::Reply>, F>
{
    fn respond(self, buffer: ReplyBuffer) -> Outcome {
        match self {
            Ok(reply) => Respond::<P, Attached<UploadValue>>::respond(reply, buffer),
            Err(failure) => buffer.failure(failure.into_response()).into(),
        }
    }
}

/// An item of a stream for packet `P`.
#[diagnostic::on_unimplemented(
    message = "a stream for `{P}` cannot have items of type `{Self}`",
    label = "its items are neither of the packet's `stream` type nor results of that",
    note = "the items of a stream are the packet's `stream` type `T`, or `Result<T, E>` where `E` is the packet's `error` \
            type, `Status` or `Failure<_>`"
)]
pub trait IntoItem<P: Streams, M> {
    /// Sorts the item.
    ///
    /// # Errors
    /// The failure that ends the stream.
    fn into_item(self) -> Result<P::Item, Failure<P::Error>>;
}

impl<P: Streams> IntoItem<P, Items<()>> for P::Item {
    #[inline]
    fn into_item(self) -> Result<P::Item, Failure<P::Error>> {
        Ok(self)
    }
}

impl<P: Streams, F: IntoFailure<P::Error, M>, M> IntoItem<P, Fallible<M>> for Result<P::Item, F> {
    #[inline]
    fn into_item(self) -> Result<P::Item, Failure<P::Error>> {
        self.map_err(IntoFailure::into_failure)
    }
}

/// The upload of a call, as its handler takes it. Used by generated handlers.
pub fn take_upload<P: Uploads>(upload: Option<CallUpload>) -> Incoming<P::Chunk> {
    match upload {
        Some(CallUpload(raw)) => Incoming::new(*raw),
        // The packet was sent as one that is not answered, which has no upload.
        None => Incoming::ended(),
    }
}

/// The upload of a call whose handler has not been called yet. Dropping it lets the caller know that nobody reads it.
#[derive(Debug)]
pub struct CallUpload(Box<RawIncoming>);

impl CallUpload {
    // Boxed, since calls without one are moved around, too.
    pub(crate) fn new(raw: RawIncoming) -> Self {
        Self(Box::new(raw))
    }
}
