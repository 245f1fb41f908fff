//! Answers that the driver compresses.

use super::{answers::Way, driver::Driver};
use crate::{
    controller::{Reply, ReplyKind},
    frame::{
        Entries, FrameKind, Metadata,
        compress::{compressed, written},
        encode_application,
    },
    link::Link,
    session::max_error,
    wire::Writer,
};

impl<L: Link> Driver<L> {
    /// Sends the answer to a call of a packet that is marked, and returns whether it has: not if it is none that users decide
    /// the length of, too short, too long, or would not become shorter.
    #[inline(never)]
    pub(super) fn answer_compressed(&mut self, way: Way, reply: &Reply) -> bool {
        let terms = &self.shared.setup.terms;
        let (body, limit) = (reply.body(), terms.message_out);
        let Some(from) = way.compress.filter(|_| terms.compression_out) else { return false };
        if body.len() < from || body.len() > limit {
            return false;
        }
        // What is wrong with them is said by who sends it uncompressed.
        let Ok(entries) = reply.entries() else { return false };
        match reply.kind() {
            ReplyKind::Value => {
                compressed(body, |bytes| self.append_compressed(FrameKind::Reply, way, entries, bytes))
            }
            ReplyKind::Application => {
                let write = |w: &mut Writer<'_>| encode_application(w, body);
                let append = |bytes: &[u8], compressed: bool| {
                    self.append_compressed(FrameKind::Error, way, entries, compressed.then_some(bytes))
                };
                written(max_error(limit), from, write, append).unwrap_or(false)
            }
            _ => false,
        }
    }

    fn append_compressed(
        &mut self,
        kind: FrameKind,
        way: Way,
        entries: Option<&Entries>,
        bytes: Option<&[u8]>,
    ) -> bool {
        let Some(bytes) = bytes else { return false };
        let (head, metadata) = (way.head(kind), (Metadata::default(), entries));
        self.append_reply(|out| out.append_compressed(way.priority, way.cover, head, metadata, bytes)).is_ok()
    }
}
