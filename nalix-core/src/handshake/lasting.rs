//! Whether a session is to outlive its link.

use std::time::Duration;

use zeroize::Zeroizing;

use super::{SessionId, random};
use crate::{
    error::{DecodeError, DecodeErrorKind},
    frame::ResumeToken,
    wire::{Reader, Writer},
};

/// What a side says about sessions that outlive their links.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lasting {
    /// It keeps nothing for another link.
    No,
    /// It keeps what is not acknowledged.
    New,
    /// As [`Lasting::New`], and wants to go on with this session.
    Attach(Attach),
}

/// A session that outlives its links, as the accepting side names it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Kept {
    /// Names it. No secret.
    pub session: SessionId,
    /// What must be shown to go on with it.
    pub token: ResumeToken,
    /// How long it is kept without a link, in whole milliseconds on the wire.
    pub grace: Duration,
}

impl Kept {
    /// Puts it together.
    pub const fn new(session: SessionId, token: ResumeToken, grace: Duration) -> Self {
        Self { session, token, grace }
    }

    /// Names a session, with a token of its own. `None` if the operating system has no randomness.
    pub(crate) fn generate(session: SessionId, grace: Duration) -> Option<Self> {
        let mut bytes = Zeroizing::new([0; ResumeToken::LEN]);
        random::fill(&mut *bytes).ok()?;
        Some(Self { session, token: ResumeToken::from_bytes(*bytes), grace })
    }

    /// A flag, and the rest if there is one.
    pub(super) fn write(kept: Option<&Self>, w: &mut Writer<'_>) {
        let Some(Self { session, token, grace }) = kept else { return w.put_u8(NO) };
        w.put_u8(NEW);
        w.put(session.as_bytes());
        w.put(token.as_bytes());
        w.put_varint(u64::try_from(grace.as_millis()).unwrap_or(u64::MAX));
    }

    /// Left out by those who keep nothing.
    pub(super) fn read(r: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {
        if r.is_empty() || r.u8()? == NO {
            return Ok(None);
        }
        Ok(Some(Self {
            session: SessionId::from_bytes(r.array()?),
            token: ResumeToken::from_bytes(r.array()?),
            grace: Duration::from_millis(r.varint()?),
        }))
    }
}

/// Asks to go on with a session over another link.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Attach {
    /// The session.
    pub session: SessionId,
    /// The secret that came with it.
    pub token: ResumeToken,
    /// Grows with each link that is tried, so that one that was given up and comes late does not take the place of a newer one.
    pub epoch: u32,
    /// How many bytes of the peer's frames have been handled.
    pub received: u64,
}

impl Attach {
    /// Puts it together.
    pub const fn new(session: SessionId, token: ResumeToken, epoch: u32, received: u64) -> Self {
        Self { session, token, epoch, received }
    }
}

impl Lasting {
    pub(super) fn write(&self, w: &mut Writer<'_>) {
        match self {
            Lasting::No => w.put_u8(NO),
            Lasting::New => w.put_u8(NEW),
            Lasting::Attach(Attach { session, token, epoch, received }) => {
                w.put_u8(ATTACH);
                w.put(session.as_bytes());
                w.put(token.as_bytes());
                w.put_varint(u64::from(*epoch));
                w.put_varint(*received);
            }
        }
    }

    /// Left out by those who keep nothing.
    pub(super) fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        if r.is_empty() {
            return Ok(Lasting::No);
        }
        Ok(match r.u8()? {
            NO => Lasting::No,
            ATTACH => Lasting::Attach(Attach {
                session: SessionId::from_bytes(r.array()?),
                token: ResumeToken::from_bytes(r.array()?),
                epoch: u32::try_from(r.varint()?)
                    .map_err(|_| DecodeErrorKind::OutOfRange { expected: "epoch" })?,
                received: r.varint()?,
            }),
            // Later versions may know more, which is to be as good as new here.
            _ => Lasting::New,
        })
    }
}

const NO: u8 = 0;
const NEW: u8 = 1;
const ATTACH: u8 = 2;
