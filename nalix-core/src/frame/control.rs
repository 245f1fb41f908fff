//! The payload of a Control frame: messages about the connection itself.

use std::time::Duration;

use bytes::Bytes;

use super::failure::{put_advice, put_text, take_advice, take_code, take_text};
use crate::{
    error::DecodeError,
    status::{CloseCode, CloseReason, Side},
    wire::{Encode, Limits, Reader, Writer},
};

/// A message about the connection.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Control {
    /// The sender closes; nothing comes after this.
    Close(CloseReason),
    /// The sender will close soon: finish, and start nothing new.
    Drain {
        /// How long until it closes, in whole milliseconds on the wire.
        within: Duration,
    },
    /// The sender has verified the peer's part of the handshake. The first message of a client on a secured connection, so
    /// that the server knows that it speaks with somebody who is there, and not with a recording.
    Ready,
    /// The accepting side does not go on with the session that was asked for: what it has named in its hello is a new one. Its
    /// first frame then.
    Fresh,
    /// The accepting side goes on with the session that was asked for. Its first frame then.
    Resumed {
        /// How many bytes of frames of the connecting side it has handled. The rest comes again.
        received: u64,
    },
    /// The sender wants to know what time it is here.
    AskTime {
        /// Comes back with the answer.
        number: u64,
    },
    /// The answer: what time it was here, in microseconds since 1970.
    Time {
        /// That of the question.
        number: u64,
        /// When the question came.
        received: u64,
        /// When the answer left.
        sent: u64,
    },
    /// A message that this version does not know. Answered with nothing: it is a hint by definition.
    Unknown(u8),
}

impl Control {
    /// Whether it is about the link and not the session: such frames come once for each link and are not counted in positions.
    pub const fn is_of_link(&self) -> bool {
        matches!(self, Control::Ready | Control::Fresh | Control::Resumed { .. })
    }

    /// Reads a payload.
    ///
    /// # Errors
    /// [`DecodeError`] if it is malformed.
    pub fn decode(payload: &Bytes) -> Result<Self, DecodeError> {
        let mut r = Reader::from_bytes(payload, &Limits::DEFAULT);
        Ok(match r.u8()? {
            CLOSE => Control::Close(take_reason(&mut r)?),
            DRAIN => Control::Drain { within: Duration::from_millis(r.varint()?) },
            READY => Control::Ready,
            FRESH => Control::Fresh,
            RESUMED => Control::Resumed { received: r.varint()? },
            ASK_TIME => Control::AskTime { number: r.varint()? },
            TIME => Control::Time { number: r.varint()?, received: r.varint()?, sent: r.varint()? },
            other => Control::Unknown(other),
        })
    }
}

impl Encode for Control {
    fn encode(&self, w: &mut Writer<'_>) {
        match self {
            Control::Close(reason) => {
                w.put_u8(CLOSE);
                put_reason(w, reason);
            }
            Control::Drain { within } => {
                w.put_u8(DRAIN);
                w.put_varint(u64::try_from(within.as_millis()).unwrap_or(u64::MAX));
            }
            Control::Ready => w.put_u8(READY),
            Control::Fresh => w.put_u8(FRESH),
            Control::Resumed { received } => {
                w.put_u8(RESUMED);
                w.put_varint(*received);
            }
            Control::AskTime { number } => {
                w.put_u8(ASK_TIME);
                w.put_varint(*number);
            }
            Control::Time { number, received, sent } => {
                w.put_u8(TIME);
                w.put_varint(*number);
                w.put_varint(*received);
                w.put_varint(*sent);
            }
            Control::Unknown(other) => w.put_u8(*other),
        }
    }
}

/// Writes a close reason: the payload of a Close message, and the body of an Abort record.
pub(crate) fn put_reason(w: &mut Writer<'_>, reason: &CloseReason) {
    w.put_varint(u64::from(reason.code.to_u16()));
    put_advice(w, reason.advice);
    put_text(w, &reason.message);
}

/// Reads a close reason of the peer's.
pub(crate) fn take_reason(r: &mut Reader<'_>) -> Result<CloseReason, DecodeError> {
    let code = CloseCode::from_u16(take_code(r)?);
    let advice = take_advice(r)?;
    let message = take_text(r)?;
    Ok(CloseReason::new(code, message).with_advice(advice).by(Side::Peer))
}

const CLOSE: u8 = 0;
const DRAIN: u8 = 1;
const READY: u8 = 2;
const FRESH: u8 = 3;
const RESUMED: u8 = 4;
const ASK_TIME: u8 = 5;
const TIME: u8 = 6;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{status::Advice, wire::to_vec};

    #[test]
    fn messages_round_trip() {
        let reason = CloseReason::new(CloseCode::GoingAway, "restart").with_advice(Advice::Reconnect);
        for message in [
            Control::Close(reason.by(Side::Peer)),
            Control::Drain { within: Duration::from_secs(5) },
            Control::Ready,
            Control::Fresh,
            Control::Resumed { received: 1 << 40 },
            Control::AskTime { number: 300 },
            Control::Time { number: 300, received: 1 << 50, sent: (1 << 50) + 7 },
            Control::Unknown(77),
        ] {
            let bytes = Bytes::from(to_vec(&message).unwrap());
            assert_eq!(Control::decode(&bytes).unwrap(), message);
            assert!(Control::decode(&bytes.slice(..0)).is_err());
        }
    }
}
