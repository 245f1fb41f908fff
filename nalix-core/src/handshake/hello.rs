//! The clear part of the hellos: what comes before anything is encrypted, and goes into the transcript.

use bytes::{Buf, Bytes};

use super::{Offer, Params, Sealing, TicketId, VERSION};
use crate::{
    Side,
    error::{DecodeErrorKind, ProtocolError},
    frame::Control,
    record::Suites,
    status::{CloseCode, CloseReason},
    wire::to_vec,
};

/// How a connection is secured, as its first record says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Way {
    /// Not at all.
    Plaintext,
    /// Noise `NK`: the side that connects knows the other's key and has none itself.
    Pinned,
    /// Noise `IK`: both have a key.
    Mutual,
    /// Noise `NNpsk0`: both know the secret that belongs to a ticket.
    Resume(TicketId),
}

/// The first record of the side that connects.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hello {
    /// The lowest version it speaks.
    pub min_version: u8,
    /// The highest version it speaks.
    pub max_version: u8,
    /// How it wants the connection secured.
    pub way: Way,
    /// Its parameters, or the first Noise message.
    pub content: Bytes,
}

impl Hello {
    /// A hello of this version without its content.
    pub(super) fn new(way: Way) -> Self {
        Self { min_version: VERSION, max_version: VERSION, way, content: Bytes::new() }
    }

    /// The hello of a side with these parameters that does not want the connection secured.
    pub fn plaintext(params: &Params) -> Self {
        Self {
            content: Offer::new(params, Sealing::None, Suites::NONE).to_bytes().into(),
            ..Self::new(Way::Plaintext)
        }
    }

    /// Everything before the content. It is the prologue of the Noise handshake, so that a change to it is found out.
    pub fn prologue(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(MAX_PROLOGUE);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&[self.min_version, self.max_version]);
        match self.way {
            Way::Plaintext => out.push(0),
            Way::Pinned => out.push(1),
            Way::Mutual => out.push(2),
            Way::Resume(ticket) => {
                out.push(3);
                out.extend_from_slice(ticket.as_bytes());
            }
        }
        out
    }

    /// The body of its record.
    pub fn body(&self) -> Vec<u8> {
        let mut out = self.prologue();
        out.extend_from_slice(&self.content);
        out
    }

    /// Reads a body.
    ///
    /// # Errors
    /// [`ProtocolError`] if it is no hello.
    pub fn parse(body: &Bytes) -> Result<Self, ProtocolError> {
        let mut rest = body.clone();
        if !rest.starts_with(MAGIC) {
            return Err(ProtocolError::BadMagic);
        }
        rest.advance(MAGIC.len());
        let [min_version, max_version, way] = take(&mut rest)?;
        let way = match way {
            0 => Way::Plaintext,
            1 => Way::Pinned,
            2 => Way::Mutual,
            3 => Way::Resume(TicketId::from_bytes(take(&mut rest)?)),
            found => {
                return Err(ProtocolError::BadHello(
                    DecodeErrorKind::UnknownVariant { found: found.into() }.into(),
                ));
            }
        };
        Ok(Self { min_version, max_version, way, content: rest })
    }

    /// Whether there is a version that both sides speak.
    ///
    /// # Errors
    /// The reason to refuse the peer for.
    pub fn check_version(&self) -> Result<(), CloseReason> {
        if (self.min_version..=self.max_version).contains(&VERSION) {
            return Ok(());
        }
        let message = format!(
            "this side speaks protocol version {VERSION}, the peer {} to {}",
            self.min_version, self.max_version
        );
        Err(CloseReason::new(CloseCode::Incompatible, message))
    }
}

fn take<const N: usize>(rest: &mut Bytes) -> Result<[u8; N], ProtocolError> {
    match rest.first_chunk() {
        Some(&taken) => {
            rest.advance(N);
            Ok(taken)
        }
        None => Err(ProtocolError::BadHello(DecodeErrorKind::Truncated { missing: N - rest.len() }.into())),
    }
}

/// The body of an Abort record.
pub fn abort_body(reason: &CloseReason) -> Vec<u8> {
    to_vec(&Control::Close(reason.clone())).unwrap_or_default()
}

/// Reads the body of an Abort record; one that is malformed is as good as one without a reason.
pub fn read_abort(body: &Bytes) -> CloseReason {
    match Control::decode(body) {
        Ok(Control::Close(reason)) => reason,
        _ => CloseReason::new(CloseCode::ProtocolError, "unreadable abort").by(Side::Peer),
    }
}

const MAGIC: &[u8; 5] = b"nalix";
const MAX_PROLOGUE: usize = MAGIC.len() + 3 + TicketId::LEN;
