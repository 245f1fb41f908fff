//! A request that goes along with the hello.

use std::{fmt, marker::PhantomData, task::Waker, time::Duration};

use tokio::time::Instant;

use super::{Connection, RequestFuture};
use crate::{
    CallId,
    error::EncodeError,
    frame::{FRAGMENT, Head, Metadata},
    packet::Request,
    record,
    session::{Cover, Outbound},
};

/// The first request of a resumed session, which travels in the handshake's first flight.
///
/// Made before there is a connection, and turned into the future of its answer by [`EarlyRequest::on`] when there is one.
pub struct EarlyRequest<P> {
    frames: Vec<u8>,
    deadline: Option<Instant>,
    packet: PhantomData<fn() -> P>,
}

/// Without the packet's content, which may be secret.
impl<P: Request> fmt::Debug for EarlyRequest<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EarlyRequest").field("packet", &P::NAME).finish_non_exhaustive()
    }
}

impl<P: Request> EarlyRequest<P> {
    /// Encodes a request of at most `max_message` bytes, and no more than fit a frame, which is answered within `timeout`.
    ///
    /// # Errors
    /// [`EncodeError`] if it is too long or cannot be encoded.
    pub fn new(packet: &P, max_message: usize, timeout: Option<Duration>) -> Result<Self, EncodeError> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let metadata = timeout.map(Metadata::remaining).unwrap_or_default();
        let mut out = Outbound::new(max_message.min(FRAGMENT));
        let head = Head::request(FIRST, P::OPCODE);
        out.append(Cover::Sealed, head, metadata, packet.size_hint(), |w| packet.encode(w))?;
        let mut frames = out.take(Vec::new());
        // The hello takes the place of the record.
        frames.drain(..record::HEADER);
        Ok(Self { frames, deadline, packet: PhantomData })
    }

    /// What to give to [`connect_early`](crate::connection::connect_early).
    pub fn frames(&self) -> &[u8] {
        &self.frames
    }

    /// Waits for the answer on a connection whose hello has taken the frames along. To be called before its driver is
    /// polled and before anything else is asked on it; otherwise, `None`.
    pub fn on(&self, connection: &Connection) -> Option<RequestFuture<P>> {
        let mut state = connection.shared.lock();
        if state.calls.is_full() {
            return None;
        }
        let key = state.calls.insert(Waker::noop().clone(), self.deadline, Cover::of(P::ENCRYPT));
        if key.id() != FIRST {
            state.calls.take_back(key);
            return None;
        }
        state.calls.set_position(key, 0);
        if let Some(deadline) = self.deadline {
            state.note_deadline(deadline);
        }
        drop(state);
        Some(RequestFuture::sent(connection.clone(), self.deadline, key))
    }
}

/// The id of a connection's first request.
const FIRST: CallId = CallId::new(0);
