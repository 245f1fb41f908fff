//! Answers that the driver compresses.

use super::{driver::Driver, inbox::Ticket};
use crate::{
    CallId,
    controller::{Reply, ReplyKind},
    frame::{
        FrameKind, Head, Metadata,
        compress::{compressed, written},
        encode_application,
    },
    link::Link,
    session::max_error,
};

impl<L: Link> Driver<L> {
    /// Sends the answer to a call of a packet that is marked, and returns whether it has: not if it is none that users decide
    /// the length of, too short, too long, or would not become shorter.
    #[inline(never)]
    pub(super) fn answer_compressed(&mut self, id: CallId, ticket: &Ticket, reply: &Reply) -> bool {
        let terms = &self.shared.setup.terms;
        let (body, limit) = (reply.body(), terms.message_out);
        let Some(from) = ticket.compress().filter(|_| terms.compression_out) else { return false };
        if body.len() < from || body.len() > limit {
            return false;
        }
        match reply.kind() {
            ReplyKind::Value => {
                compressed(body, |bytes| self.append_answer(FrameKind::Reply, id, ticket, bytes))
            }
            ReplyKind::Application => {
                let write = |w: &mut crate::wire::Writer<'_>| encode_application(w, body);
                let append = |bytes: &[u8], compressed: bool| {
                    self.append_answer(FrameKind::Error, id, ticket, compressed.then_some(bytes))
                };
                written(max_error(limit), from, write, append).unwrap_or(false)
            }
            _ => false,
        }
    }

    fn append_answer(&mut self, kind: FrameKind, id: CallId, ticket: &Ticket, bytes: Option<&[u8]>) -> bool {
        let Some(bytes) = bytes else { return false };
        let (head, metadata) = (Head::of_call(kind, id), (Metadata::default(), None));
        self.append_reply(|out| out.append_compressed(ticket.priority, ticket.cover, head, metadata, bytes))
            .is_ok()
    }
}
