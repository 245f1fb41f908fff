//! What the driver does with the answers of calls.

use super::{
    driver::Driver,
    inbox::{Ticket, kind_of},
};
use crate::{
    CallId,
    controller::{Reply, ReplyKind, unsendable},
    error::EncodeError,
    frame::{Entries, FRAGMENT, FrameKind, Head, Metadata, encode_application, encode_status},
    link::Link,
    packet::Priority,
    session::{Appended, Cover, Outbound},
    status::{Code, Status},
};

/// How the answer to a call goes. All frames of an answer go alike, so that they stay in order.
#[derive(Debug, Clone, Copy)]
pub(super) struct Way {
    pub(super) id: CallId,
    pub(super) cover: Cover,
    pub(super) priority: Option<Priority>,
    /// From how many bytes on it is compressed.
    pub(super) compress: Option<usize>,
}

impl Way {
    /// For a call that has no handler: nothing goes before its answer.
    pub(super) fn of(id: CallId, cover: Cover) -> Self {
        Self { id, cover, priority: None, compress: None }
    }

    pub(super) fn head(self, kind: FrameKind) -> Head {
        Head::of_call(kind, self.id)
    }
}

impl Ticket {
    /// How the answer goes, if there is to be one.
    #[inline]
    pub(super) fn way(&self) -> Option<Way> {
        let Self { cover, priority, .. } = *self;
        self.id.map(|id| Way { id, cover, priority, compress: self.compress() })
    }
}

impl<L: Link> Driver<L> {
    /// Puts the answers of calls that have ended into the outbox.
    pub(super) fn send_answered(&mut self) {
        if self.answered.is_empty() {
            return;
        }
        let mut answered = std::mem::take(&mut self.answered);
        for (ticket, reply) in answered.drain(..) {
            self.send_answer(&ticket, reply);
        }
        self.answered = answered;
    }

    #[inline]
    pub(super) fn send_answer(&mut self, ticket: &Ticket, reply: Reply) {
        let Some(way) = ticket.way() else { return self.drop_answer(ticket, reply) };
        if *reply.kind() == ReplyKind::Items {
            return self.send_items(way, reply);
        }
        let malformed = reply.status().is_some_and(|status| status.code == Code::Malformed);
        if way.compress.is_some() && self.answer_compressed(way, &reply) {
            self.recycle(reply);
        } else if reply.body().len() > FRAGMENT && *reply.kind() == ReplyKind::Value {
            if let Err(status) = self.append_large(way, reply) {
                self.refuse(way, &status);
            }
        } else {
            let sent = match reply.entries() {
                Ok(entries) => self.append_answer(way, &reply, entries),
                Err(error) => Err(unsendable(&error)),
            };
            if let Err(status) = sent {
                self.refuse(way, &status);
            }
            self.recycle(reply);
        }
        if ticket.uploads {
            self.shared.upload_over(way.id);
        }
        if malformed {
            self.lose_patience();
        }
    }

    /// Nobody is told how a one-way packet has fared.
    fn drop_answer(&mut self, ticket: &Ticket, reply: Reply) {
        if let Some(status) = reply.status() {
            tracing::debug!(kind = ?kind_of(ticket), %status, "a one-way packet failed");
            if status.code == Code::Malformed {
                self.lose_patience();
            }
        }
        self.recycle(reply);
    }

    /// A handler's buffer has the connection's limit, so its reply fits. One that a layer has made may not.
    #[inline]
    fn append_answer(&mut self, way: Way, reply: &Reply, entries: Option<&Entries>) -> Result<(), Status> {
        let Way { cover, priority, .. } = way;
        let body = reply.body();
        match reply.kind() {
            ReplyKind::Value => {
                let (head, metadata) = (way.head(FrameKind::Reply), (Metadata::default(), entries));
                self.append_reply(|out| {
                    out.append_as(priority, cover, head, metadata, body.len(), |w| w.put(body))
                })
            }
            ReplyKind::Application => {
                let (head, hint) = (way.head(FrameKind::Error), body.len() + 1);
                self.append_reply(|out| {
                    out.append_error_as(priority, cover, head, entries, hint, |w| encode_application(w, body))
                })
            }
            ReplyKind::Status(status) => self.append_status(way, status, entries),
            ReplyKind::End => {
                let head = way.head(FrameKind::End);
                self.append_reply(|out| out.append_error_as(priority, cover, head, entries, 0, |_| ()))
            }
            ReplyKind::Nothing => Err(Status::internal("the handler gave no answer")),
            ReplyKind::Items => Ok(()),
        }
    }

    #[inline]
    pub(super) fn append_reply(
        &mut self,
        f: impl FnOnce(&mut Outbound) -> Result<Appended, EncodeError>,
    ) -> Result<(), Status> {
        let mut result = Ok(());
        self.must_look = true;
        self.backlog = self.shared.append(|out| {
            result = f(out).map(drop).map_err(|error| unsendable(&error));
        });
        result
    }

    #[cold]
    fn append_status(&mut self, way: Way, status: &Status, entries: Option<&Entries>) -> Result<(), Status> {
        let Way { cover, priority, .. } = way;
        let head = way.head(FrameKind::Error);
        self.append_reply(|out| {
            out.append_error_as(priority, cover, head, entries, 0, |w| encode_status(w, status))
        })
    }

    /// Answers with a status, for which there is always room in a frame.
    #[cold]
    pub(super) fn refuse(&mut self, way: Way, status: &Status) {
        // What is too large has been logged.
        drop(self.append_status(way, status, None));
    }

    fn recycle(&mut self, reply: Reply) {
        let buffer = reply.into_buffer();
        if self.buffers.len() < KEEP_BUFFERS && (1..=KEEP_BYTES).contains(&buffer.capacity()) {
            self.buffers.push(buffer);
        }
    }
}

/// How many reply buffers a connection keeps, and how large one may be.
const KEEP_BUFFERS: usize = 16;
const KEEP_BYTES: usize = 16 * 1024;
