//! One packet on its way to its handler.

use std::{fmt, sync::Arc, time::Instant};

use bytes::Bytes;

use super::{CallUpload, Context, Items, Reply, ReplyBuffer, Route, guard::Held};
use crate::{Opcode, packet::Packet, status::Status, wire::Decode};

/// Whether a call wants an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CallKind {
    /// It is answered exactly once.
    Request,
    /// It is not answered; a failure is only traced.
    OneWay,
}

/// What a tower layer sees: a packet that has arrived and has not been decoded.
///
/// `Debug` leaves out what the packet says, and so it does of replies: layers print calls, and some hold secrets.
pub struct Call {
    kind: CallKind,
    route: Route,
    context: Context,
    payload: Bytes,
    reply: ReplyBuffer,
    upload: Option<CallUpload>,
}

impl Call {
    /// A call of the packet that `route` leads to.
    pub fn new(kind: CallKind, route: Route, context: Context, payload: Bytes, reply: ReplyBuffer) -> Self {
        Self { kind, route, context, payload, reply, upload: None }
    }

    /// Lets it be answered with a stream, and gives it the upload that follows its packet.
    pub(crate) fn with_streams(mut self, items: Option<Arc<Items>>, upload: Option<CallUpload>) -> Self {
        self.reply = self.reply.with_items(items);
        self.upload = upload;
        self
    }

    /// Where the items of its stream go, if it is answered with one.
    pub(crate) fn items(&self) -> Option<&Arc<Items>> {
        self.reply.items()
    }

    /// Whether it wants an answer.
    pub fn kind(&self) -> CallKind {
        self.kind
    }

    /// The opcode of its packet.
    pub fn opcode(&self) -> Opcode {
        self.context.opcode()
    }

    /// Where its handler is.
    pub fn route(&self) -> Route {
        self.route
    }

    /// The connection it came from, and what belongs to the call.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// The encoded packet.
    pub fn payload(&self) -> &Bytes {
        &self.payload
    }

    /// When its caller stops waiting, if it ever does.
    pub fn deadline(&self) -> Option<Instant> {
        self.context.deadline()
    }

    /// Answers it without running its handler.
    pub fn refuse(self, status: Status) -> Reply {
        self.reply.status(status)
    }

    /// Says when it is stopped.
    pub(crate) fn set_deadline(&mut self, deadline: Instant) {
        self.context.set_deadline(deadline);
    }

    /// Keeps what it holds until it is answered.
    pub(super) fn hold(&mut self, held: Held) {
        self.reply.hold(held);
    }

    /// Takes it apart.
    pub fn into_parts(self) -> Parts {
        Parts { context: self.context, payload: self.payload, reply: self.reply, upload: self.upload }
    }
}

/// What a handler is given.
#[non_exhaustive]
pub struct Parts {
    /// The connection, and what belongs to the call.
    pub context: Context,
    /// The encoded packet.
    pub payload: Bytes,
    /// Where the reply is written.
    pub reply: ReplyBuffer,
    /// What follows the packet, if it has an upload.
    pub upload: Option<CallUpload>,
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("kind", &self.kind)
            .field("route", &self.route)
            .field("context", &self.context)
            .field("payload", &format_args!("{} bytes", self.payload.len()))
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts")
            .field("context", &self.context)
            .field("payload", &format_args!("{} bytes", self.payload.len()))
            .field("reply", &self.reply)
            .finish()
    }
}

/// Decodes the packet of a call, or answers why it can't be. Used by generated handlers.
///
/// # Errors
/// The [`Reply`] that tells the caller what is wrong with the payload.
pub fn decode_call<'de, P: Packet + Decode<'de>>(
    payload: &'de Bytes,
    context: &Context,
    reply: ReplyBuffer,
) -> Result<(P, ReplyBuffer), Reply> {
    match crate::packet::decode_packet::<P>(payload, context.limits()) {
        Ok(packet) => Ok((packet, reply)),
        Err(error) => Err(reply.malformed(P::NAME, &error)),
    }
}
