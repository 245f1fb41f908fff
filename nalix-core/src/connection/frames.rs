//! What the driver does with each frame, and with the calls that frames bring.

use std::task::{Context, Poll};

use bytes::Bytes;

use super::{
    driver::{Driver, draining},
    inbox::{Answered, Ticket, kind_of},
};
use crate::{
    controller::{Call, CallKind, Reply, ReplyBuffer, ReplyKind},
    error::ProtocolError,
    frame::{Control, FrameKind, Head, Metadata, encode_application, encode_status},
    link::Link,
    peer::Answer,
    session::Frame,
    status::{CloseReason, Code, Status},
    wire::{Encode, Writer},
};

impl<L: Link> Driver<L> {
    /// Handles every whole frame that has been received. Returns the reason if the peer has closed.
    pub(super) fn handle_frames(&mut self, cx: &mut Context<'_>) -> Option<CloseReason> {
        let mut closed = None;
        // What comes behind a goodbye, whoever said it, is not executed.
        while !self.phase.is_closing() {
            let handled = match self.inbound.next_frame() {
                Ok(Some(frame)) => self.handle_frame(frame, cx),
                Ok(None) => break,
                Err(error) => Err(error),
            };
            match handled {
                Ok(None) => {}
                Ok(Some(reason)) => {
                    closed = Some(reason);
                    break;
                }
                Err(error) => self.refuse(&error),
            }
        }
        if self.phase.is_closing() {
            self.inbound.buffer().clear();
        }
        self.deliver_answers();
        self.pump(cx);
        closed
    }

    #[inline]
    fn handle_frame(
        &mut self,
        frame: Frame,
        cx: &mut Context<'_>,
    ) -> Result<Option<CloseReason>, ProtocolError> {
        match frame.kind {
            FrameKind::Request => {
                self.inbox.check_id(frame.id)?;
                self.handle_packet(frame, CallKind::Request, cx);
            }
            FrameKind::Notify => self.handle_packet(frame, CallKind::OneWay, cx),
            FrameKind::Reply => self.answers.push((frame.id, Answer::Reply(frame.payload))),
            FrameKind::Error => self.answers.push((frame.id, Answer::Error(frame.payload))),
            FrameKind::Cancel => {
                if !frame.payload.is_empty() {
                    return Err(ProtocolError::BadFrame { what: "cancel with a payload" });
                }
                if let Some(answered) = self.inbox.cancel(frame.id) {
                    self.answered.push(answered);
                    self.send_answered();
                }
            }
            FrameKind::Ping => {
                if frame.payload.len() > MAX_PING {
                    return Err(ProtocolError::BadFrame { what: "ping longer than 32 bytes" });
                }
                self.append(Head::plain(FrameKind::Pong), &Raw(&frame.payload));
            }
            FrameKind::Pong | FrameKind::Ack => {}
            FrameKind::Control => {
                let control = Control::decode(&frame.payload)
                    .map_err(|_| ProtocolError::BadFrame { what: "bad control message" })?;
                match control {
                    Control::Close(reason) => return Ok(Some(reason)),
                    Control::Drain { within } => tracing::debug!(?within, "the peer is about to close"),
                    Control::Unknown(kind) => tracing::debug!(kind, "unknown control message"),
                }
            }
            // Kinds that this version does not serve get an answer where there is somebody to hear it.
            FrameKind::Item
            | FrameKind::End
            | FrameKind::Credit
            | FrameKind::Continue
            | FrameKind::Unknown(_) => {
                let status = Status::new(Code::Unimplemented, "this kind of frame is not known here");
                self.append(Head::of_call(FrameKind::Error, frame.id), &StatusBody(&status));
            }
        }
        Ok(None)
    }

    fn handle_packet(&mut self, frame: Frame, kind: CallKind, cx: &mut Context<'_>) {
        let id = (kind == CallKind::Request).then_some(frame.id);
        let route = match self.router.route(frame.opcode) {
            Some(route) if self.phase.is_open() => route,
            Some(_) => return self.refuse_call(id, &draining()),
            None => {
                tracing::debug!(opcode = %frame.opcode, "packet without a handler");
                return self.refuse_call(id, &Status::new(Code::Unimplemented, "no handler for this packet"));
            }
        };
        let allowed = match (frame.metadata.remaining, self.options.max_deadline) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        // One-way packets have nobody who stops waiting.
        let deadline = allowed.filter(|_| id.is_some()).and_then(|allowed| self.now().checked_add(allowed));
        if let Some(deadline) = deadline {
            self.arm_for(deadline);
        }
        let context = self.context.for_call(frame.opcode, deadline.map(tokio::time::Instant::into_std));
        let buffer = self.buffers.pop().unwrap_or_default();
        let reply = ReplyBuffer::new(buffer, self.context.max_message());
        let call = Call::new(kind, route, context, frame.payload, reply);
        if let Some((call, ticket)) = self.inbox.admit(call, id, deadline) {
            match self.gate(cx) {
                Gate::Open => self.start(call, ticket),
                Gate::Shut => self.inbox.hold(call, ticket),
                Gate::Broken(status) => {
                    let reply = call.refuse(status);
                    self.inbox.forget(&ticket);
                    self.send_answer((ticket, reply));
                }
            }
        }
    }

    /// Starts the calls whose turn it is, as far as the gate lets them through.
    pub(super) fn pump(&mut self, cx: &mut Context<'_>) {
        let mut budget = MAX_STARTS;
        while self.inbox.has_ready() {
            if budget == 0 {
                cx.waker().wake_by_ref();
                return;
            }
            budget -= 1;
            match self.gate(cx) {
                Gate::Open => {
                    if let Some((call, ticket)) = self.inbox.next() {
                        self.start(call, ticket);
                    }
                }
                Gate::Shut => return,
                Gate::Broken(status) => {
                    self.inbox.refuse_queued(&status, &mut self.answered);
                    self.send_answered();
                }
            }
        }
    }

    /// Whether one more call may start: hooks are done, there is room for its answer, the service is ready.
    fn gate(&mut self, cx: &mut Context<'_>) -> Gate {
        if !self.hooks_done() {
            return Gate::Shut;
        }
        if !self.shared.has_room() {
            self.short_of_room = true;
            return Gate::Shut;
        }
        match self.serving.dispatch.poll_ready(cx) {
            Poll::Ready(Ok(())) => Gate::Open,
            Poll::Ready(Err(status)) => Gate::Broken(status),
            Poll::Pending => Gate::Shut,
        }
    }

    #[inline]
    fn start(&mut self, call: Call, ticket: Ticket) {
        if let Some(answered) = self.inbox.start(&mut *self.serving.dispatch, call, ticket) {
            self.send_answer(answered);
        }
    }

    /// Puts the answers of calls that have ended into the outbox.
    pub(super) fn send_answered(&mut self) {
        let mut answered = std::mem::take(&mut self.answered);
        for answer in answered.drain(..) {
            self.send_answer(answer);
        }
        self.answered = answered;
    }

    #[inline]
    fn send_answer(&mut self, (ticket, reply): Answered) {
        match ticket.id {
            Some(id) => match reply.kind() {
                ReplyKind::Value => {
                    let (head, body) = (Head::of_call(FrameKind::Reply, id), reply.body());
                    self.shared.append(|out| {
                        // The buffer it was written to has the same limit, so it fits.
                        drop(out.append(head, Metadata::default(), body.len(), |w| w.put(body)));
                    });
                }
                ReplyKind::Application => {
                    self.append(Head::of_call(FrameKind::Error, id), &ApplicationBody(reply.body()));
                }
                ReplyKind::Status(status) => {
                    self.append(Head::of_call(FrameKind::Error, id), &StatusBody(status));
                }
                ReplyKind::Nothing => {
                    let status = Status::internal("the handler gave no answer");
                    self.append(Head::of_call(FrameKind::Error, id), &StatusBody(&status));
                }
            },
            None => {
                if let Some(status) = reply.status() {
                    tracing::debug!(kind = ?kind_of(&ticket), %status, "a one-way packet failed");
                }
            }
        }
        self.recycle(reply);
    }

    fn recycle(&mut self, reply: Reply) {
        let buffer = reply.into_buffer();
        if self.buffers.len() < KEEP_BUFFERS && (1..=KEEP_BYTES).contains(&buffer.capacity()) {
            self.buffers.push(buffer);
        }
    }

    fn refuse_call(&self, id: Option<crate::CallId>, status: &Status) {
        if let Some(id) = id {
            self.append(Head::of_call(FrameKind::Error, id), &StatusBody(status));
        }
    }
}

/// Whether a call may start.
enum Gate {
    Open,
    /// Not yet; something will wake the driver when it is worth asking again.
    Shut,
    /// The tower service has failed, and says this.
    Broken(Status),
}

struct Raw<'a>(&'a Bytes);

impl Encode for Raw<'_> {
    fn encode(&self, w: &mut Writer<'_>) {
        w.put(self.0);
    }
}

struct StatusBody<'a>(&'a Status);

impl Encode for StatusBody<'_> {
    fn encode(&self, w: &mut Writer<'_>) {
        encode_status(w, self.0);
    }
}

struct ApplicationBody<'a>(&'a [u8]);

impl Encode for ApplicationBody<'_> {
    fn encode(&self, w: &mut Writer<'_>) {
        encode_application(w, self.0);
    }

    fn size_hint(&self) -> usize {
        self.0.len() + 1
    }
}

/// The longest ping that is answered, in bytes.
const MAX_PING: usize = 32;
/// How many calls that have waited one turn starts.
const MAX_STARTS: usize = 256;
/// How many reply buffers a connection keeps, and how large one may be.
const KEEP_BUFFERS: usize = 16;
const KEEP_BYTES: usize = 16 * 1024;
