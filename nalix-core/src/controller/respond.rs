//! What a handler may return.

use super::{Outcome, ReplyBuffer};
use crate::{
    packet::{OneWay, Request},
    peer::Response,
    status::{Failure, Status},
};

/// A value that a handler of packet `P` may return.
///
/// `M` only tells the implementations apart; it is always inferred.
#[diagnostic::on_unimplemented(
    message = "a handler of `{P}` cannot return `{Self}`",
    label = "not a reply to `{P}`",
    note = "a handler returns the packet's `reply` type `R`, or `Result<R, E>` where `E` is the packet's `error` type, \
            `Status` or `Failure<_>`, each also within a `Response`; a handler of a one-way packet returns nothing or `Result<(), Status>`; one of a \
            packet with `stream = T` returns a stream of `T`"
)]
pub trait Respond<P, M> {
    /// Encodes the answer.
    fn respond(self, buffer: ReplyBuffer) -> Outcome;
}

/// The types that tell the implementations of [`Respond`] apart.
pub mod respond_marker {
    use std::marker::PhantomData;

    /// The reply itself.
    #[derive(Debug)]
    pub struct Value;
    /// A `Result` of the reply.
    #[derive(Debug)]
    pub struct Fallible<M>(PhantomData<M>);
    /// A stream, or its item itself.
    #[derive(Debug)]
    pub struct Items<M>(PhantomData<M>);
    /// A stream whose type has a name.
    #[derive(Debug)]
    pub struct Streamed<M>(PhantomData<M>);
    /// The reply to an upload.
    #[derive(Debug)]
    pub struct UploadValue;
    /// A `Result` of the reply to an upload.
    #[derive(Debug)]
    pub struct FallibleUpload<M>(PhantomData<M>);
    /// Something with metadata.
    #[derive(Debug)]
    pub struct Attached<M>(PhantomData<M>);
    /// A `Result` of the reply with metadata.
    #[derive(Debug)]
    pub struct FallibleAttached<M>(PhantomData<M>);
    /// A `Result` of the reply to an upload, with metadata.
    #[derive(Debug)]
    pub struct FallibleUploadAttached<M>(PhantomData<M>);
    /// Nothing.
    #[derive(Debug)]
    pub struct Nothing;
    /// A `Result` of nothing.
    #[derive(Debug)]
    pub struct FallibleNothing;
    /// The packet's error type.
    #[derive(Debug)]
    pub struct Application;
    /// A status.
    #[derive(Debug)]
    pub struct OnlyStatus;
    /// Either of both.
    #[derive(Debug)]
    pub struct Either;
}

use respond_marker::{
    Application, Attached, Either, Fallible, FallibleAttached, FallibleNothing, Nothing, OnlyStatus, Value,
};

impl<P: Request> Respond<P, Value> for P::Reply {
    #[inline]
    fn respond(self, buffer: ReplyBuffer) -> Outcome {
        Outcome::Ready(buffer.value(&self))
    }
}

impl<P: Request, F: IntoFailure<P::Error, M>, M> Respond<P, Fallible<M>> for Result<P::Reply, F> {
    #[inline]
    fn respond(self, buffer: ReplyBuffer) -> Outcome {
        Outcome::Ready(match self {
            Ok(reply) => buffer.value(&reply),
            Err(failure) => buffer.failure(failure.into_response()),
        })
    }
}

impl<P, R: Respond<P, M>, M> Respond<P, Attached<M>> for Response<R> {
    fn respond(self, buffer: ReplyBuffer) -> Outcome {
        let (inner, attached) = self.into_parts();
        match inner.respond(buffer) {
            Outcome::Ready(reply) => Outcome::Ready(reply.attach(attached)),
            Outcome::Pending(reply) => {
                Outcome::Pending(Box::pin(async move { reply.await.attach(attached) }))
            }
        }
    }
}

impl<P: Request, F: IntoFailure<P::Error, M>, M> Respond<P, FallibleAttached<M>>
    for Result<Response<P::Reply>, F>
{
    fn respond(self, buffer: ReplyBuffer) -> Outcome {
        match self {
            Ok(reply) => Respond::<P, Attached<Value>>::respond(reply, buffer),
            Err(failure) => Outcome::Ready(buffer.failure(failure.into_response())),
        }
    }
}

impl<P: OneWay> Respond<P, Nothing> for () {
    #[inline]
    fn respond(self, buffer: ReplyBuffer) -> Outcome {
        Outcome::Ready(buffer.nothing())
    }
}

impl<P: OneWay> Respond<P, FallibleNothing> for Result<(), Status> {
    #[inline]
    fn respond(self, buffer: ReplyBuffer) -> Outcome {
        Outcome::Ready(match self {
            Ok(()) => buffer.nothing(),
            Err(status) => buffer.status(status),
        })
    }
}

/// Never applies. As the second candidate for every type it makes the compiler report that a type is no reply, in the
/// words above, instead of why the only candidate failed.
impl<P, T: sealed::Unreturnable> Respond<P, sealed::No> for T {
    fn respond(self, buffer: ReplyBuffer) -> Outcome {
        Outcome::Ready(buffer.nothing())
    }
}

pub(super) use sealed::{No, Unreturnable};

mod sealed {
    /// Marks the implementation that never applies.
    #[derive(Debug)]
    pub struct No;

    /// Implemented by no type.
    pub trait Unreturnable {}
}

/// The error half of a handler's `Result`, for a packet with error type `E`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an error that this packet's handler may return",
    label = "neither the packet's `error` type, nor `Status`, nor `Failure<_>`",
    note = "declare it on the packet with `#[packet(..., error = {Self})]`, or convert it to `Status`"
)]
pub trait IntoFailure<E, M> {
    /// Sorts the error.
    fn into_failure(self) -> Failure<E>;

    /// The same with what is to travel along.
    fn into_response(self) -> Response<Failure<E>>
    where
        Self: Sized,
    {
        Response::new(self.into_failure())
    }
}

impl<E> IntoFailure<E, Application> for E {
    fn into_failure(self) -> Failure<E> {
        Failure::Application(self)
    }
}

impl<E> IntoFailure<E, OnlyStatus> for Status {
    fn into_failure(self) -> Failure<E> {
        Failure::Status(self)
    }
}

impl<E, F: IntoFailure<E, M>, M> IntoFailure<E, Attached<M>> for Response<F> {
    fn into_failure(self) -> Failure<E> {
        self.into_inner().into_failure()
    }

    fn into_response(self) -> Response<Failure<E>> {
        self.map(IntoFailure::into_failure)
    }
}

impl<E> IntoFailure<E, Either> for Failure<E> {
    fn into_failure(self) -> Failure<E> {
        self
    }
}
