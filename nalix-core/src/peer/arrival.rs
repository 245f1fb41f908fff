//! What has come from the peer for those who wait behind the lock, and where it goes.

use std::{fmt, task::Waker};

use bytes::Bytes;

use super::{
    calls::{Answer, Answered, Unsealed},
    flow::Ending,
    flows::Upload,
    shared::{Shared, State},
};
use crate::{CallId, error::ProtocolError, session::Cover};

/// Something about a call.
pub(crate) enum Arrival {
    /// The last word about a call of ours.
    Answer(Answer),
    /// Items of the stream of a call of ours.
    Items(Bytes),
    /// Credit for the upload of a call of ours.
    Credit(u64),
    /// Nobody wants the rest of the upload of a call of ours.
    Stop,
    /// Chunks of the upload of a call of the peer's.
    Chunks(Bytes),
    /// The end of the upload of a call of the peer's.
    UploadEnd(Bytes),
}

/// Without the content, which may be secret.
impl fmt::Debug for Arrival {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Arrival::Answer(answer) => answer.fmt(f),
            Arrival::Items(items) => write!(f, "Items({} bytes)", items.len()),
            Arrival::Credit(n) => write!(f, "Credit({n})"),
            Arrival::Stop => f.write_str("Stop"),
            Arrival::Chunks(chunks) => write!(f, "Chunks({} bytes)", chunks.len()),
            Arrival::UploadEnd(body) => write!(f, "UploadEnd({} bytes)", body.len()),
        }
    }
}

impl State {
    #[inline]
    fn arrive(
        &mut self,
        id: CallId,
        cover: Cover,
        arrival: Arrival,
        wakers: &mut Vec<Waker>,
    ) -> Result<(), ProtocolError> {
        match arrival {
            Arrival::Answer(answer) => match self.calls.answer(id, cover, answer) {
                Ok(Answered::Nobody) => {
                    self.stop_request(id);
                    Ok(())
                }
                Ok(Answered::Caller(waker)) => {
                    self.stop_request(id);
                    wakers.push(waker);
                    Ok(())
                }
                Ok(Answered::Stream(key, answer)) => {
                    self.stop_request(id);
                    self.flows.end(key, Ending::Answered(answer));
                    if let Some(flow) = self.flows.get(key) {
                        wakers.extend(flow.reader.take().into_iter().chain(flow.writer.take()));
                    }
                    Ok(())
                }
                Err(Unsealed) => Err(ProtocolError::Unsealed { what: "answer to a sealed request" }),
            },
            other => self.stream_part(id, cover, other, wakers),
        }
    }

    fn stream_part(
        &mut self,
        id: CallId,
        cover: Cover,
        arrival: Arrival,
        wakers: &mut Vec<Waker>,
    ) -> Result<(), ProtocolError> {
        let part = match arrival {
            Arrival::Chunks(chunks) => return self.flows.upload(id, cover, Upload::Items(chunks), wakers),
            Arrival::UploadEnd(body) => return self.flows.upload(id, cover, Upload::End(body), wakers),
            part => part,
        };
        let sealed = cover.is_sealed() || !matches!(part, Arrival::Items(_));
        let key = match self.calls.stream(id, sealed) {
            Ok(Some(key)) => key,
            // Its end may have crossed this; whoever has asked is not harmed.
            Ok(None) => return Ok(()),
            Err(error) => return Err(error),
        };
        let Some(flow) = self.flows.get(key) else { return Ok(()) };
        match part {
            Arrival::Items(items) => {
                flow.push(items)?;
                wakers.extend(flow.reader.take());
                return Ok(());
            }
            Arrival::Credit(n) => match self.flows.change(key, |outgoing| outgoing.grant(n)) {
                Some(Ok(())) => {}
                Some(Err(_)) => return Err(ProtocolError::BadFrame { what: "too much credit" }),
                None => return Err(ProtocolError::BadFrame { what: "credit for an upload that is none" }),
            },
            _ => {
                self.flows.change(key, |outgoing| {
                    outgoing.stopped = true;
                    outgoing.discard();
                });
            }
        }
        wakers.extend(self.flows.get(key).and_then(|flow| flow.writer.take()));
        Ok(())
    }
}

impl Shared {
    /// Hands out a batch of answers and parts of streams, and collects the wakers of those who wait for them, to be woken
    /// when the lock is gone. Returns whether items may be sent now that could not.
    ///
    /// # Errors
    /// [`ProtocolError`] if one of them must be sealed and is not, or breaks the rules of streams; the others have been
    /// handed out.
    pub(crate) fn deliver(
        &self,
        arrivals: &mut Vec<(CallId, Cover, Arrival)>,
        wakers: &mut Vec<Waker>,
    ) -> Result<bool, ProtocolError> {
        let mut result = Ok(());
        let mut state = self.lock();
        for (id, cover, arrival) in arrivals.drain(..) {
            if let Err(error) = state.arrive(id, cover, arrival, wakers) {
                result = Err(error);
            }
        }
        // A late answer frees a slot without a caller that would pass it on.
        wakers.extend(state.next_waiter());
        result.map(|()| state.flows.has_unsent())
    }
}
