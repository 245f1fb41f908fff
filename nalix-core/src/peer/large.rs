//! What handles and the driver do about messages that go in fragments, or wait for their turn.

use bytes::Bytes;

use super::shared::{Shared, State};
use crate::{
    CallId,
    frame::FRAGMENT,
    packet::{Packet, Priority},
    session::{Outbound, TakenBack},
    wire::Encode,
};

impl State {
    /// Whether a message of this priority may be sent for which [`large`] has found so many bytes.
    #[inline]
    pub(super) fn has_room_for(&self, priority: Priority, large: usize) -> bool {
        self.has_room(priority) && (large == 0 || self.out.has_large_room(large))
    }

    /// Notes where requests start that had to wait for their turn and have been taken.
    pub(super) fn note_completed(&mut self) {
        let Self { out, calls, flows, .. } = self;
        for completed in out.completed() {
            if let Some(key) = calls.completed(completed.id, completed.position) {
                flows.opened(key, completed.position);
            }
        }
    }

    /// The peer has answered a call, so that what is left of its request and its upload need not be sent. None of it may be:
    /// the next call with this id would get it.
    #[inline]
    pub(super) fn stop_request(&mut self, id: CallId) {
        if self.out.has_queued() {
            self.out.give_up(true, id);
            self.out.drop_upload(id);
        }
    }

    /// Nobody waits for the answer to a request any more. Returns whether the peer has to be told by a Cancel.
    pub(super) fn cancel(&mut self, id: CallId) -> bool {
        if self.out.withdraw(id) {
            self.calls.forget(id);
            return false;
        }
        match self.out.give_up(true, id) {
            None => true,
            // The end that the message has come to says it.
            Some(TakenBack { begun: true, .. }) => false,
            Some(TakenBack { begun: false, .. }) => {
                self.calls.forget(id);
                false
            }
        }
    }
}

impl Shared {
    /// The caller of a call that has been answered does not want the answer. If a part of it has not gone yet, none of it
    /// counts, and `f` appends another.
    pub(crate) fn stop_answer(&self, id: CallId, f: impl FnOnce(&mut Outbound, TakenBack)) -> usize {
        self.append(|out| {
            if let Some(taken) = out.give_up(false, id) {
                f(out, taken);
            }
        })
    }
}

/// The bytes of a packet that is encoded already and goes in fragments: all whom it is sent to share them.
#[inline]
pub(super) fn shared_bytes<P: Packet>(packet: &P) -> Option<Bytes> {
    packet.encoding().filter(|bytes| bytes.len() > FRAGMENT).cloned()
}

/// About how many bytes a packet has if it will go in fragments; else zero.
#[inline]
pub(super) fn large<P: Encode>(packet: &P) -> usize {
    let hint = packet.size_hint();
    if hint > FRAGMENT { hint } else { 0 }
}
