//! The two paths of a session that goes on over another link.

use super::{Cover, Frame, Inbound, Outbound, outbound::Open, resend::ResendLog};
use crate::{
    error::ProtocolError,
    frame::{self, Control, FrameKind, Head},
    record,
    wire::{Encode, Writer, varint},
};

impl Outbound {
    /// Keeps what is sent from now on until the peer acknowledges it, at most so many bytes. To be called before anything is
    /// appended that counts.
    pub fn keep_log(&mut self, max: usize) {
        self.log = Some(Box::new(ResendLog::new(max)));
    }

    /// How many bytes have been taken, for the links of the session together.
    pub fn position(&self) -> u64 {
        self.taken
    }

    /// How many bytes are kept to be sent again.
    pub fn log_len(&self) -> usize {
        self.log.as_ref().map_or(0, |log| log.len())
    }

    /// Appends a message about the link, in a record of its own that is neither counted nor kept.
    pub fn append_of_link(&mut self, control: &Control) {
        self.close_record();
        let cover = self.cover(Cover::Sealed);
        let mut payload = Vec::new();
        control.encode(&mut Writer::new(&mut payload, usize::MAX));
        let start = self.buf.len();
        self.buf.extend_from_slice(&[0; record::HEADER]);
        frame::put_head(&mut self.buf, Head::plain(FrameKind::Control));
        let mut len = [0; varint::MAX_LEN];
        let n = varint::put(payload.len() as u64, &mut len);
        self.buf.extend_from_slice(&len[..n]);
        self.buf.extend_from_slice(&payload);
        self.finish_record(start, cover);
    }

    /// The peer has handled this many bytes of our frames.
    ///
    /// # Errors
    /// [`ProtocolError::BadFrame`] if they are more than were sent.
    pub fn acknowledge(&mut self, received: u64) -> Result<(), ProtocolError> {
        match &mut self.log {
            None => Ok(()),
            Some(log) => log
                .acknowledge(received)
                .map_err(|_| ProtocolError::BadFrame { what: "acknowledges what was not sent" }),
        }
    }

    /// Gives back what the log does not need now, on a connection that has nothing to do.
    pub fn shrink_log(&mut self) {
        if let Some(log) = &mut self.log {
            log.shrink();
        }
    }

    /// Whether everything behind this many bytes of our frames can be sent again.
    pub fn can_go_on(&self, received: u64) -> bool {
        self.log.as_ref().is_some_and(|log| log.reaches(received))
    }

    /// Goes on over another link, for which `new` was made: with its keys, and behind what it holds with what the peer has
    /// not handled. Returns the bytes to be written first. What has been appended since then and waits comes behind them.
    ///
    /// [`Outbound::can_go_on`] must have said yes.
    pub fn go_on(&mut self, mut new: Outbound, received: u64) -> Vec<u8> {
        let mut first = new.take(Vec::new());
        // Records that are closed are in the log. They were sealed with keys that are gone.
        let closed = self.open.map_or(self.buf.len(), |open| open.start);
        self.buf.drain(..closed);
        self.taken += closed as u64;
        self.open = self.open.map(|open| Open { start: 0, ..open });
        (self.sealer, self.sealing, self.exhausted) = (new.sealer, new.sealing, new.exhausted);
        let Some(mut log) = self.log.take() else { return first };
        // Only closed records are of use to the peer.
        drop(log.acknowledge(received));
        let mut waiting = std::mem::replace(&mut self.buf, std::mem::take(&mut first));
        log.replay(received, |cover, body| {
            let start = self.buf.len();
            self.buf.extend_from_slice(&[0; record::HEADER]);
            self.buf.extend_from_slice(body);
            self.finish_record(start, self.cover(cover));
        });
        log.taken();
        std::mem::swap(&mut self.buf, &mut waiting);
        self.log = Some(log);
        waiting
    }
}

impl Inbound {
    /// How many bytes of the peer's frames have come out, without those about the link.
    #[inline]
    pub fn position(&self) -> u64 {
        self.counted.saturating_sub((self.body.len() - self.at) as u64)
    }

    /// The frame that has come out last is about the link, and does not count.
    pub fn uncount(&mut self) {
        self.counted = self.counted.saturating_sub(self.frame_len as u64);
    }

    /// Goes on where `old` has come to: what has come out of it stays, what it has received and not given out comes again.
    pub fn go_on(&mut self, old: Inbound) {
        let early = (self.body.len() - self.at) as u64;
        self.counted = old.position() + early;
        (self.assembly, self.share, self.held) = (old.assembly, old.share, old.held);
    }
}

/// Reads a control message out of a frame, if it is one.
pub fn control_of(frame: &Frame) -> Option<Control> {
    if frame.kind == FrameKind::Control { Control::decode(&frame.payload).ok() } else { None }
}
