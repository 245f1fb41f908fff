//! The body of an Error frame: the packet's own error, or a status.

use std::{borrow::Cow, time::Duration};

use bytes::Bytes;

use crate::{
    error::{DecodeError, DecodeErrorKind},
    status::{Advice, Code, Failure, Status},
    wire::{Limits, Reader, Writer},
};

/// The longest message of a status or close reason that travels, in bytes; longer ones are cut at a character.
pub(crate) const MAX_TEXT: usize = 1024;

/// Writes the body of an Error frame that carries an encoded application error.
pub fn encode_application(w: &mut Writer<'_>, error: &[u8]) {
    w.put_u8(APPLICATION);
    w.put(error);
}

/// Writes the body of an Error frame that carries a status.
pub fn encode_status(w: &mut Writer<'_>, status: &Status) {
    w.put_u8(STATUS);
    w.put_varint(u64::from(status.code.to_u16()));
    put_advice(w, status.advice);
    put_text(w, &status.message);
}

/// Reads the body of an Error frame; an application error stays encoded.
///
/// # Errors
/// [`DecodeError`] if it is neither form.
pub fn decode_failure(body: &Bytes) -> Result<Failure<Bytes>, DecodeError> {
    let mut r = Reader::from_bytes(body, &Limits::DEFAULT);
    match r.u8()? {
        APPLICATION => {
            let rest = r.remaining();
            Ok(Failure::Application(r.shared(rest)?))
        }
        STATUS => {
            let code = take_code(&mut r)?;
            let advice = take_advice(&mut r)?;
            let message = take_text(&mut r)?;
            Ok(Failure::Status(Status::new(Code::from_u16(code), message).with_advice(advice)))
        }
        found => Err(DecodeErrorKind::UnknownVariant { found: u64::from(found) }.into()),
    }
}

pub(super) fn take_code(r: &mut Reader<'_>) -> Result<u16, DecodeError> {
    u16::try_from(r.varint()?).map_err(|_| DecodeErrorKind::OutOfRange { expected: "code" }.into())
}

pub(super) fn put_advice(w: &mut Writer<'_>, advice: Advice) {
    match advice {
        Advice::None => w.put_u8(0),
        Advice::Retry { after: None } => w.put_u8(1),
        Advice::Retry { after: Some(after) } => {
            w.put_u8(2);
            w.put_varint(u64::try_from(after.as_millis()).unwrap_or(u64::MAX));
        }
        Advice::Reconnect => w.put_u8(3),
        Advice::Authenticate => w.put_u8(4),
        Advice::GiveUp => w.put_u8(5),
    }
}

pub(super) fn take_advice(r: &mut Reader<'_>) -> Result<Advice, DecodeError> {
    Ok(match r.u8()? {
        1 => Advice::Retry { after: None },
        2 => Advice::Retry { after: Some(Duration::from_millis(r.varint()?)) },
        3 => Advice::Reconnect,
        4 => Advice::Authenticate,
        5 => Advice::GiveUp,
        // Advice is a hint: one that is not known is as good as none.
        _ => Advice::None,
    })
}

pub(super) fn put_text(w: &mut Writer<'_>, text: &str) {
    let mut end = text.len().min(MAX_TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    w.put_len(end);
    w.put(&text.as_bytes()[..end]);
}

pub(super) fn take_text(r: &mut Reader<'_>) -> Result<Cow<'static, str>, DecodeError> {
    let len = r.len()?;
    if len > MAX_TEXT {
        return Err(DecodeErrorKind::TooLong { found: len as u64, limit: MAX_TEXT as u64 }.into());
    }
    let text = std::str::from_utf8(r.bytes(len)?).map_err(|_| DecodeErrorKind::NotUtf8)?;
    Ok(Cow::Owned(text.to_owned()))
}

const STATUS: u8 = 0;
const APPLICATION: u8 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(status: &Status) -> Status {
        let mut out = Vec::new();
        let mut w = Writer::new(&mut out, usize::MAX);
        encode_status(&mut w, status);
        w.finish().unwrap();
        match decode_failure(&Bytes::from(out)).unwrap() {
            Failure::Status(status) => status,
            Failure::Application(_) => panic!("not a status"),
        }
    }

    #[test]
    fn statuses_round_trip() {
        for advice in [
            Advice::None,
            Advice::Retry { after: None },
            Advice::Retry { after: Some(Duration::from_millis(1500)) },
            Advice::Reconnect,
            Advice::Authenticate,
            Advice::GiveUp,
        ] {
            for code in [Code::Cancelled, Code::Malformed, Code::Other(999)] {
                let status = Status::new(code, "why").with_advice(advice);
                assert_eq!(round_trip(&status), status);
            }
        }
    }

    #[test]
    fn long_messages_are_cut_at_a_character() {
        let status = Status::internal("x".to_owned() + &"é".repeat(1000));
        let back = round_trip(&status);
        assert_eq!(back.message.len(), 1023);
        assert!(status.message.starts_with(&*back.message));
    }

    #[test]
    fn a_message_that_is_not_utf8_is_an_error() {
        assert!(decode_failure(&Bytes::from_static(&[0, 13, 0, 1, 0xff])).is_err());
        assert!(decode_failure(&Bytes::from_static(&[7])).is_err());
        assert!(decode_failure(&Bytes::new()).is_err());
    }
}
