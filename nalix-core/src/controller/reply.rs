//! Answers, already encoded.

use std::{fmt, future::Future, pin::Pin, sync::Arc};

use super::{guard::Held, items::Items};
use crate::{
    caught::Panicked,
    error::{DecodeError, EncodeError},
    frame::Entries,
    peer::{Attached, Response},
    status::{Code, Failure, Status},
    wire::{Encode, Writer},
};

/// What a handler has come to, or will.
pub enum Outcome {
    /// Done.
    Ready(Reply),
    /// Not polled yet, or waiting.
    Pending(ReplyFuture),
}

/// A handler that has not finished.
pub type ReplyFuture = Pin<Box<dyn Future<Output = Reply> + Send>>;

impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Ready(reply) => f.debug_tuple("Ready").field(reply).finish(),
            Outcome::Pending(_) => f.write_str("Pending"),
        }
    }
}

impl Outcome {
    /// Waits for the reply. Used by generated handlers.
    pub async fn settle(self) -> Reply {
        match self {
            Outcome::Ready(reply) => reply,
            Outcome::Pending(future) => future.await,
        }
    }
}

impl From<Reply> for Outcome {
    fn from(reply: Reply) -> Self {
        Outcome::Ready(reply)
    }
}

/// What kind of answer a [`Reply`] is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplyKind {
    /// The reply type of the packet, encoded.
    Value,
    /// The error type of the packet, encoded.
    Application,
    /// Any other failure. Boxed, since it is rare and large.
    Status(Box<Status>),
    /// The stream of the packet has ended, and all is well.
    End,
    /// Items of the stream of the packet, of which more follow.
    Items,
    /// The packet is one-way and its handler is done.
    Nothing,
}

/// An answer: encoded, and ready for the outbox.
pub struct Reply {
    kind: ReplyKind,
    /// The encoded value or error; empty for the other kinds, and kept for its capacity.
    body: Vec<u8>,
    attached: Attached,
}

impl Reply {
    fn new(kind: ReplyKind, body: Vec<u8>) -> Self {
        Self { kind, body, attached: Attached::default() }
    }

    /// A failure that is made without a call at hand, for instance by a layer.
    pub fn from_status(status: Status) -> Self {
        ReplyBuffer::unbounded().status(status)
    }

    /// Items of a stream, of which more follow.
    pub(crate) fn items(items: Vec<u8>) -> Self {
        Self::new(ReplyKind::Items, items)
    }

    /// What kind of answer it is.
    pub fn kind(&self) -> &ReplyKind {
        &self.kind
    }

    /// The encoded value or application error.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// The status, if it is a failure other than the packet's own error.
    pub fn status(&self) -> Option<&Status> {
        match &self.kind {
            ReplyKind::Status(status) => Some(status),
            _ => None,
        }
    }

    /// Lets a key and a value travel with the answer, behind those that the handler has attached; see
    /// [`Response`](crate::Response). For layers. A one-way packet is not answered, and has no use for them.
    #[must_use]
    pub fn with_metadata(mut self, key: &str, value: impl AsRef<[u8]>) -> Self {
        self.attached.push(key, value.as_ref());
        self
    }

    /// The value of the first pair with this key that travels with the answer.
    pub fn metadata(&self, key: &str) -> Option<&[u8]> {
        self.attached.good()?.get(key)
    }

    /// Adds metadata behind what there is.
    #[inline]
    pub(super) fn attach(mut self, attached: Attached) -> Self {
        if !attached.is_none() {
            self.attached.append(attached);
        }
        self
    }

    /// The metadata that travels with it.
    ///
    /// # Errors
    /// Why it cannot.
    pub(crate) fn entries(&self) -> Result<Option<&Entries>, EncodeError> {
        self.attached.entries()
    }

    /// The encoded value or application error, to be sent as it is, and the metadata.
    pub(crate) fn into_parts(self) -> (Vec<u8>, Attached) {
        (self.body, self.attached)
    }

    /// Gives the buffer back for the next reply.
    pub(crate) fn into_buffer(mut self) -> Vec<u8> {
        self.body.clear();
        self.body
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply")
            .field("kind", &self.kind)
            .field("body", &format_args!("{} bytes", self.body.len()))
            .field("metadata", &self.attached.good())
            .finish()
    }
}

/// Where a reply is written: a recycled buffer with the connection's message limit.
pub struct ReplyBuffer {
    buf: Vec<u8>,
    limit: usize,
    /// Where the items of a stream go, if the packet is answered with one.
    items: Option<Arc<Items>>,
    /// What its policy has taken for the call.
    held: Option<Held>,
}

impl fmt::Debug for ReplyBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplyBuffer").field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl ReplyBuffer {
    /// Uses `buf` (its content is dropped) for a reply of at most `limit` bytes.
    pub fn new(mut buf: Vec<u8>, limit: usize) -> Self {
        buf.clear();
        Self { buf, limit, items: None, held: None }
    }

    /// Lets the packet be answered with a stream.
    pub(crate) fn with_items(mut self, items: Option<Arc<Items>>) -> Self {
        self.items = items;
        self
    }

    /// Keeps what the call holds until it is answered, or dropped.
    pub(super) fn hold(&mut self, held: Held) {
        self.held = Some(held);
    }

    pub(crate) fn items(&self) -> Option<&Arc<Items>> {
        self.items.as_ref()
    }

    /// A fresh buffer without a limit.
    pub fn unbounded() -> Self {
        Self::new(Vec::new(), usize::MAX)
    }

    /// Answers with the packet's reply type.
    #[inline]
    pub fn value<T: Encode>(self, value: &T) -> Reply {
        self.encode(ReplyKind::Value, value)
    }

    /// Answers with the packet's error type.
    pub fn application<E: Encode>(self, error: &E) -> Reply {
        self.encode(ReplyKind::Application, error)
    }

    /// Answers with a failure.
    #[cold]
    pub fn status(mut self, status: Status) -> Reply {
        self.buf.clear();
        self.reply(ReplyKind::Status(Box::new(status)))
    }

    /// Answers with either failure, and its metadata.
    pub(super) fn failure<E: Encode>(self, failure: Response<Failure<E>>) -> Reply {
        let (failure, attached) = failure.into_parts();
        match failure {
            Failure::Application(error) => self.application(&error),
            Failure::Status(status) => self.status(status),
        }
        .attach(attached)
    }

    /// Ends a stream.
    pub(super) fn end(self) -> Reply {
        self.reply(ReplyKind::End)
    }

    /// Ends a one-way call.
    pub fn nothing(self) -> Reply {
        self.reply(ReplyKind::Nothing)
    }

    /// Answers that the payload is not the packet it claims to be.
    #[cold]
    pub fn malformed(self, packet: &'static str, error: &DecodeError) -> Reply {
        self.status(Status::new(Code::Malformed, format!("{packet}: {error}")))
    }

    #[inline]
    fn reply(self, kind: ReplyKind) -> Reply {
        if let Some(held) = self.held {
            held.settle(&kind);
        }
        Reply::new(kind, self.buf)
    }

    #[inline]
    fn encode<T: Encode>(mut self, kind: ReplyKind, value: &T) -> Reply {
        let mut w = Writer::new(&mut self.buf, self.limit);
        value.encode(&mut w);
        match w.finish() {
            Ok(_) => self.reply(kind),
            Err(error) => self.status(unsendable(&error)),
        }
    }
}

impl Panicked {
    /// What the caller is told: nothing of the panic itself.
    pub(crate) fn reply(&self) -> Reply {
        Reply::from_status(Status::internal("the handler failed"))
    }
}

/// What a caller is told whose answer cannot be sent.
#[cold]
pub(crate) fn unsendable(error: &EncodeError) -> Status {
    tracing::error!(%error, "a handler's reply cannot be sent");
    let code = match error {
        EncodeError::MessageTooLarge { .. } => Code::ResourceExhausted,
        _ => Code::Internal,
    };
    Status::new(code, "the reply cannot be sent")
}
