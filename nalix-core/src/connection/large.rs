//! What the driver does about messages that go or come in fragments.

use std::time::Duration;

use super::{answers::Way, driver::Driver};
use crate::{
    CallId,
    controller::{Reply, unsendable},
    error::ProtocolError,
    frame::{FrameKind, Head, Metadata, encode_status},
    link::Link,
    peer::{Answer, Arrival},
    session::{Cover, Frame, Unfinished},
    status::{Code, Status},
    wire::Writer,
};

impl<L: Link> Driver<L> {
    /// A message has begun and will not come.
    #[cold]
    pub(super) fn handle_unfinished(&mut self, frame: &Frame, why: Unfinished) -> Result<(), ProtocolError> {
        let cover = Cover::of(frame.sealed);
        let status = match why {
            Unfinished::GivenUp => Status::new(Code::Cancelled, ""),
            Unfinished::OverBudget => no_room(),
            Unfinished::Crowded => crowded(),
        };
        match (frame.kind, why) {
            (FrameKind::Request, _) => {
                self.inbox.check_id(frame.id)?;
                self.refuse(Way::of(frame.id, cover), &status);
            }
            (FrameKind::Reply | FrameKind::Error, Unfinished::OverBudget | Unfinished::Crowded) => {
                let mut body = Vec::new();
                encode_status(&mut Writer::new(&mut body, usize::MAX), &status);
                self.answers.push((frame.id, cover, Arrival::Answer(Answer::Error(body.into()))));
            }
            // The peer gives another answer instead.
            (FrameKind::Reply | FrameKind::Error, Unfinished::GivenUp) => {}
            (kind, _) => tracing::debug!(?kind, opcode = %frame.opcode, %status, "a message is dropped"),
        }
        Ok(())
    }

    /// The peer does not want the answer to a call that is not there any more. Perhaps not all of it has gone.
    #[cold]
    pub(super) fn stop_answer(&mut self, id: CallId) {
        self.must_look = true;
        self.backlog = self.shared.stop_answer(id, |out, taken| {
            let status = Status::new(Code::Cancelled, "");
            let head = Head::of_call(FrameKind::Error, id);
            let sent = out.append_error_as(Some(taken.priority), taken.cover, head, None, 0, |w| {
                encode_status(w, &status);
            });
            // There is always room for a status.
            debug_assert!(sent.is_ok());
        });
    }

    /// Answers with a reply that does not fit a frame, without a copy.
    #[cold]
    pub(super) fn append_large(&mut self, way: Way, reply: Reply) -> Result<(), Status> {
        let Way { id, cover, priority, .. } = way;
        let (body, attached) = reply.into_parts();
        let entries = attached.entries().map_err(|error| unsendable(&error))?;
        let (head, metadata) = (Head::of_call(FrameKind::Reply, id), (Metadata::default(), entries));
        self.append_reply(|out| out.append_encoded(priority, cover, head, metadata, body.into()))
    }
}

/// What the sender of a message is told for which there is no room beside those of other connections.
fn crowded() -> Status {
    Status::resource_exhausted("too many large messages at a time, of all connections", Some(RETRY_AFTER))
}

/// What the sender of a message is told for which there is no room.
fn no_room() -> Status {
    Status::new(Code::ResourceExhausted, "too many large messages at a time")
}

/// When messages that had no room are worth another try.
const RETRY_AFTER: Duration = Duration::from_secs(1);
