//! What the driver does with each frame, and with the calls that frames bring.

use std::task::{Context, Poll};

use bytes::Bytes;

use super::{
    answers::Way,
    driver::Driver,
    inbox::{Line, Ticket, deadline_exceeded},
    phase::draining,
};
use crate::{
    CallId,
    controller::{Call, CallKind, Panicked, ReplyBuffer, caught},
    error::ProtocolError,
    frame::{Control, FRAGMENT, FrameKind, Head},
    link::Link,
    packet::Priority,
    peer::{Answer, Arrival},
    session::{Cover, Frame},
    status::{CloseCode, CloseReason, Code, Status},
    wire::{Encode, Writer},
};

impl<L: Link> Driver<L> {
    /// Handles the whole frames that have been received. Returns the reason if the peer has closed.
    pub(super) fn handle_frames(&mut self, cx: &mut Context<'_>) -> Option<CloseReason> {
        let mut closed = None;
        let mut seen = 0usize;
        let mut frame = Frame::empty();
        self.unhandled = false;
        // What comes behind a goodbye, whoever said it, is not executed.
        while !self.phase.is_closing() {
            // One record can hold very many small frames, each of which makes us keep or owe something larger.
            seen += 1;
            let check = seen.is_multiple_of(CHECK_BACKLOG);
            if check {
                // Inflated, they may be far more than has been received.
                self.deliver_answers();
            }
            if self.is_flooded() || (check && !self.may_read()) {
                self.unhandled = true;
                break;
            }
            self.inbound.set_held(self.inbox.held());
            let handled = match self.inbound.read_frame(&mut frame) {
                Ok(true) => self.handle_frame(&mut frame, cx),
                Ok(false) => break,
                Err(error) => Err(error),
            };
            match handled {
                Ok(None) => {}
                Ok(Some(reason)) => {
                    closed = Some(reason);
                    break;
                }
                Err(error) => self.refuse_peer(&error),
            }
        }
        if self.phase.is_closing() {
            self.inbound.buffer().clear();
        }
        self.deliver_answers();
        self.pump(cx);
        closed
    }

    /// Takes the payload of a frame, and leaves its place to the next.
    #[inline]
    pub(super) fn handle_frame(
        &mut self,
        frame: &mut Frame,
        cx: &mut Context<'_>,
    ) -> Result<Option<CloseReason>, ProtocolError> {
        if let Some(why) = frame.unfinished {
            self.handle_unfinished(frame, why)?;
            return Ok(None);
        }
        let cover = Cover::of(frame.sealed);
        self.liveness.note(frame.kind);
        match frame.kind {
            FrameKind::Request => {
                self.inbox.check_id(frame.id)?;
                self.handle_packet(frame, CallKind::Request, cx);
            }
            FrameKind::Notify => self.handle_push(frame, cx),
            FrameKind::Reply | FrameKind::Error => self.handle_answer(frame),
            FrameKind::Item | FrameKind::End | FrameKind::Credit => self.handle_stream_frame(frame)?,
            FrameKind::Cancel if frame.upload => self.handle_stream_frame(frame)?,
            FrameKind::Cancel => {
                self.check_cover(cover, "cancel")?;
                if !frame.payload.is_empty() {
                    return Err(ProtocolError::BadFrame { what: "cancel with a payload" });
                }
                if let Some(answered) = self.inbox.cancel(frame.id) {
                    self.answered.push(answered);
                    self.send_answered();
                } else {
                    self.stop_answer(frame.id);
                }
            }
            FrameKind::Ping => {
                self.check_cover(cover, "ping")?;
                if frame.payload.len() > MAX_PING {
                    return Err(ProtocolError::BadFrame { what: "ping longer than 32 bytes" });
                }
                self.liveness.was_pinged();
                self.append(Cover::Sealed, Head::plain(FrameKind::Pong), &Raw(&frame.payload));
                self.acknowledge_now();
            }
            FrameKind::Pong => {
                self.check_cover(cover, "pong or ack")?;
                self.handle_pong(&frame.payload);
            }
            FrameKind::Ack => {
                self.check_cover(cover, "pong or ack")?;
                self.handle_ack(frame)?;
            }
            FrameKind::Control => {
                self.check_cover(cover, "control message")?;
                let control = Control::decode(&frame.payload)
                    .map_err(|_| ProtocolError::BadFrame { what: "bad control message" })?;
                match control {
                    Control::Close(reason) => return Ok(Some(reason)),
                    Control::Drain { within } => {
                        tracing::debug!(?within, "the peer is about to close");
                        self.shared.peer_drains(within);
                    }
                    Control::AskTime { number } => self.tell_time(number),
                    Control::Time { number, received, sent } => self.take_time(number, received, sent),
                    message if message.is_of_link() => self.handle_link_message(&message)?,
                    Control::Unknown(kind) => tracing::debug!(kind, "unknown control message"),
                    _ => {}
                }
            }
            // Kinds that this version does not serve get an answer where there is somebody to hear it.
            FrameKind::Continue | FrameKind::Unknown(_) => {
                let status = Status::new(Code::Unimplemented, "this kind of frame is not known here");
                self.refuse(Way::of(frame.id, cover), &status);
            }
        }
        Ok(None)
    }

    /// Keeps an answer until those of the batch are handed out.
    fn handle_answer(&mut self, frame: &mut Frame) {
        let payload = std::mem::take(&mut frame.payload);
        let large = payload.len() > FRAGMENT;
        let answer = match frame.kind {
            FrameKind::Reply => Answer::Reply(payload),
            _ => Answer::Error(payload),
        };
        let answer = answer.with(frame.entries.take());
        self.answers.push((frame.id, Cover::of(frame.sealed), Arrival::Answer(answer)));
        if large {
            // One that nobody waits for must not be kept until the batch is over.
            self.deliver_answers();
        }
    }

    /// What is about the connection itself, or about a call of whatever kind, is sealed where anything is.
    pub(super) fn check_cover(&self, cover: Cover, what: &'static str) -> Result<(), ProtocolError> {
        if !cover.is_sealed() && self.shared.is_secured() {
            return Err(ProtocolError::Unsealed { what });
        }
        Ok(())
    }

    pub(super) fn handle_packet(&mut self, frame: &mut Frame, kind: CallKind, cx: &mut Context<'_>) {
        let id = (kind == CallKind::Request).then_some(frame.id);
        // An answer goes as its request has come: one that is sealed never answers what anyone can have forged.
        let cover = Cover::of(frame.sealed);
        let route = match self.router.route(frame.opcode) {
            Some(_) if !self.phase.is_open() => return self.refuse_call(id, cover, &draining()),
            Some(route) if route.needs_sealing() && !cover.is_sealed() => {
                tracing::debug!(opcode = %frame.opcode, "packet that must be sealed came in the clear");
                return self.refuse_call(id, cover, &unsealed());
            }
            Some(route) if route.is_guarded() => match self.admit(route, frame.payload.len(), id.is_some()) {
                Ok(()) => route,
                Err(status) => return self.refuse_call(id, cover, &status),
            },
            Some(route) => route,
            None => {
                tracing::debug!(opcode = %frame.opcode, "packet without a handler");
                let status = Status::new(Code::Unimplemented, "no handler for this packet");
                return self.refuse_call(id, cover, &status);
            }
        };
        let allowed = match (frame.metadata.remaining, self.options.max_deadline) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        // One-way packets have nobody who stops waiting.
        let allowed = allowed.filter(|_| id.is_some());
        if allowed.is_some_and(|allowed| allowed.is_zero()) {
            return self.refuse_call(id, cover, &deadline_exceeded());
        }
        let deadline = allowed.and_then(|allowed| self.now().checked_add(allowed));
        if let Some(deadline) = deadline {
            self.arm_for(deadline);
        }
        let (mut ticket, mut line) = self.inbox.line_up(route, id, cover, deadline, frame.payload.len());
        if route.is_compressed() {
            ticket.set_compress(self.router.compress(route));
        }
        if line == Line::First {
            match self.gate(ticket.priority, cx) {
                Gate::Open => {}
                Gate::Closed => line = Line::Ready,
                Gate::Broken(status) => {
                    self.inbox.forget(&ticket);
                    return self.refuse_call(id, cover, &status);
                }
            }
        }
        // Put together where it goes, since it is too large to be handed around for nothing.
        let context = self.context.for_call(frame.opcode, deadline.map(tokio::time::Instant::into_std));
        let context = context.with_entries(frame.entries.take());
        let buffer = self.buffers.pop().unwrap_or_default();
        let reply = ReplyBuffer::new(buffer, self.context.max_message());
        let mut call = Call::new(kind, route, context, std::mem::take(&mut frame.payload), reply);
        if route.is_streaming() && id.is_some() {
            call = self.add_streams(call, &ticket);
        }
        match line {
            Line::First => self.start(call, ticket),
            Line::Ready => self.inbox.hold(call, ticket),
            Line::Lane(lane) => self.inbox.queue(lane, call, ticket),
        }
    }

    /// Starts the calls whose turn it is, as far as the gate lets them through.
    pub(super) fn pump(&mut self, cx: &mut Context<'_>) {
        let mut budget = MAX_STARTS;
        while let Some(priority) = self.inbox.next_priority()
            && matches!(self.gate(priority, cx), Gate::Open)
        {
            if let Some((call, ticket)) = self.inbox.next() {
                self.start(call, ticket);
            }
            budget -= 1;
            if budget == 0 {
                cx.waker().wake_by_ref();
                return;
            }
        }
        if !self.inbox.has_ready() {
            self.release_service();
        }
    }

    /// Whether one more call may start: we have not said goodbye, hooks are done, there is room for its answer, the
    /// service is ready. If it is open, a call must follow at once.
    fn gate(&mut self, priority: Option<Priority>, cx: &mut Context<'_>) -> Gate {
        let priority = priority.unwrap_or_default();
        let is_full = !self.has_room(priority);
        let is_short = is_full && !self.extra_call.is_due(self.written);
        if is_short {
            self.short.set(priority);
        }
        if self.phase.is_closing() || !self.hooks_done() || is_short {
            // Nobody else should wait for what this connection cannot use.
            self.release_service();
            return Gate::Closed;
        }
        let dispatch = &mut self.serving.dispatch;
        let status = match caught(|| dispatch.poll_ready(cx)) {
            Ok(Poll::Ready(Ok(()))) => {
                self.queued_for_service = false;
                if is_full {
                    self.extra_call.taken(self.written);
                }
                return Gate::Open;
            }
            Ok(Poll::Pending) => {
                self.queued_for_service = true;
                return Gate::Closed;
            }
            Ok(Poll::Ready(Err(status))) => status,
            Err(Panicked) => Status::internal("the server failed"),
        };
        // A service that has failed is not used again; its clone may do better. Everything that waits is told.
        self.queued_for_service = true;
        self.release_service();
        self.inbox.refuse_queued(&status, &mut self.answered);
        self.send_answered();
        Gate::Broken(status)
    }

    /// Gives up what the service has reserved for a call that is not there any more.
    fn release_service(&mut self) {
        if std::mem::take(&mut self.queued_for_service) {
            let dispatch = &mut self.serving.dispatch;
            drop(caught(|| dispatch.release()));
        }
    }

    #[inline]
    fn start(&mut self, mut call: Call, mut ticket: Ticket) {
        if call.route().is_guarded() {
            self.limit_time(&mut call, &mut ticket);
        }
        if let Some(reply) = self.inbox.start(&mut *self.serving.dispatch, call, &ticket) {
            self.send_answer(&ticket, reply);
        }
    }

    /// Closes if the peer has sent too much that does not decode.
    #[cold]
    pub(super) fn lose_patience(&mut self) {
        let now = self.now();
        if !self.patience.spend(now) {
            self.shared.blame_peer();
            let message = "too many packets that do not decode";
            self.close(CloseReason::new(CloseCode::LimitExceeded, message));
        }
    }

    fn refuse_call(&mut self, id: Option<CallId>, cover: Cover, status: &Status) {
        if let Some(id) = id {
            self.refuse(Way::of(id, cover), status);
        }
    }
}

/// What the caller is told whose packet must be sealed and was not.
#[cold]
fn unsealed() -> Status {
    Status::new(Code::EncryptionRequired, "this packet must come encrypted")
}

/// Whether a call may start.
enum Gate {
    Open,
    /// Not yet; something will wake the driver when it is worth asking again.
    Closed,
    /// The service has failed, and this is what the call is answered with.
    Broken(Status),
}

struct Raw<'a>(&'a Bytes);

impl Encode for Raw<'_> {
    fn encode(&self, w: &mut Writer<'_>) {
        w.put(self.0);
    }
}

/// The longest ping that is answered, in bytes.
const MAX_PING: usize = 32;
/// After how many frames to look whether the peer makes us owe it too much.
const CHECK_BACKLOG: usize = 256;
/// How many calls that have waited one turn starts.
const MAX_STARTS: usize = 256;
