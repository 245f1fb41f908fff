//! What each side brings into the handshake, and what both agree on.

use std::{fmt, time::Duration};

use bytes::Bytes;

use super::{Contracts, Kept, Lasting, Mismatch, TicketId, VERSION};
use crate::{
    error::{DecodeError, DecodeErrorKind, ProtocolError},
    record::{Suite, Suites},
    schema::Contract,
    status::{CloseCode, CloseReason},
    wire::{Decode, Encode, Limits, Reader, Writer, to_vec},
};

/// What one side brings into the handshake.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Params {
    /// The longest message it takes, in bytes.
    pub max_message: usize,
    /// The longest message it sends, in bytes, whatever the peer takes. The peer is not told.
    pub max_send: usize,
    /// How many calls of the peer's it keeps in flight.
    pub max_calls: usize,
    /// How many bytes of items the peer may send on a stream before it is granted more. Zero: it serves and asks for no
    /// streams, and says nothing about it.
    pub stream_window: usize,
    /// Whether it takes compressed messages, and sends them to a peer that does.
    pub compression: bool,
    /// Whether it keeps what is not acknowledged, so that the session can outlive the link.
    pub lasting: Lasting,
    /// The packets it knows.
    pub contracts: Contracts,
}

impl Params {
    /// Puts parameters together, without streams and compression. It sends what the peer takes.
    pub fn new(max_message: usize, max_calls: usize, contracts: Contracts) -> Self {
        let (max_send, stream_window, compression) = (usize::MAX, 0, false);
        let lasting = Lasting::No;
        Self { max_message, max_send, max_calls, stream_window, compression, lasting, contracts }
    }

    /// Sets the window of streams, in bytes.
    #[must_use]
    pub fn with_streams(mut self, window: usize) -> Self {
        self.stream_window = window;
        self
    }

    /// Sets whether messages may be compressed.
    #[must_use]
    pub fn with_compression(mut self, on: bool) -> Self {
        self.compression = on;
        self
    }
}

/// What both sides have agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Terms {
    /// The protocol version.
    pub version: u8,
    /// The longest message that we send, in bytes: the smaller of what the peer takes and what we would send.
    pub message_out: usize,
    /// The longest message that we take, in bytes.
    pub message_in: usize,
    /// How many calls of ours the peer keeps in flight.
    pub calls_out: usize,
    /// How many calls of the peer's we keep in flight.
    pub calls_in: usize,
    /// How many bytes of items we may send on a stream before the peer grants more.
    pub window_out: usize,
    /// How many bytes of items the peer may send on a stream before we grant more.
    pub window_in: usize,
    /// Whether we may send compressed messages.
    pub compression_out: bool,
    /// Whether the peer may send compressed messages.
    pub compression_in: bool,
    /// Whether both sides keep what is not acknowledged, so that the session can outlive its links.
    pub lasting: bool,
    /// What is sealed.
    pub sealing: Sealing,
}

/// Which packets travel in sealed records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Sealing {
    /// None: the connection is not secured.
    None,
    /// Those marked `encrypt` and their answers, and everything that is not a packet.
    ///
    /// The others can be read, changed, left out, repeated and put in by anyone on the way, as on a connection that is
    /// not secured. It counts only if both sides ask for it.
    Marked,
    /// All. The default of secured connections.
    All,
}

impl Sealing {
    const fn to_byte(self) -> u8 {
        match self {
            Sealing::None => 0,
            Sealing::Marked => 1,
            Sealing::All => 2,
        }
    }

    const fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            0 => Sealing::None,
            1 => Sealing::Marked,
            2 => Sealing::All,
            _ => return None,
        })
    }
}

/// What the side that connects proposes.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Offer {
    /// The longest message it takes, in bytes.
    pub max_message: u32,
    /// How many calls it keeps in flight.
    pub max_calls: u32,
    /// What it wants sealed.
    pub sealing: Sealing,
    /// With what it seals well; none if nothing is to be sealed.
    pub suites: Suites,
    /// Opcode and fingerprint of every packet it knows.
    pub fingerprints: Vec<(u16, u64)>,
    /// Frames that go along when a session is resumed; else empty.
    pub early: Bytes,
    /// How many bytes of items it takes on a stream before it grants more; 0 stands for a field left out.
    pub stream_window: u32,
    /// Whether it takes messages compressed with LZ4.
    pub lz4: bool,
    /// Whether its session is to outlive the link, and which one is to go on.
    pub lasting: Lasting,
}

/// Without what the early frames say, which may be secret.
impl fmt::Debug for Offer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Offer")
            .field("max_message", &self.max_message)
            .field("max_calls", &self.max_calls)
            .field("sealing", &self.sealing)
            .field("fingerprints", &self.fingerprints)
            .field("early", &format_args!("{} bytes", self.early.len()))
            .finish()
    }
}

/// A ticket as the accepting side hands it out.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Grant {
    /// Its id.
    pub id: TicketId,
    /// How long it is good for, in whole seconds on the wire.
    pub lifetime: Duration,
}

impl Grant {
    /// A ticket and its lifetime.
    pub fn new(id: TicketId, lifetime: Duration) -> Self {
        Self { id, lifetime }
    }
}

/// What the side that accepts answers.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Answer {
    /// The version chosen, once more: where it stands first it is not authenticated.
    pub version: u8,
    /// The longest message it takes, in bytes.
    pub max_message: u32,
    /// How many calls it keeps in flight.
    pub max_calls: u32,
    /// What is sealed.
    pub sealing: Sealing,
    /// With what; `None` if nothing is sealed.
    pub suite: Option<Suite>,
    /// Its contracts of the packets whose fingerprints differ.
    pub differing: Vec<(u16, Contract)>,
    /// With what the session can be resumed.
    pub ticket: Option<Grant>,
    /// How many bytes of items it takes on a stream before it grants more; 0 stands for a field left out.
    pub stream_window: u32,
    /// Whether it takes messages compressed with LZ4.
    pub lz4: bool,
    /// The session that it opens, if it keeps what is not acknowledged.
    pub lasting: Option<Kept>,
}

impl Offer {
    /// The offer of a side with these parameters.
    pub fn new(params: &Params, sealing: Sealing, suites: Suites) -> Self {
        Self {
            max_message: clamp(params.max_message),
            max_calls: clamp(params.max_calls),
            sealing,
            suites,
            fingerprints: params.contracts.fingerprints(),
            early: Bytes::new(),
            stream_window: clamp(params.stream_window),
            lz4: params.compression,
            lasting: params.lasting.clone(),
        }
    }

    /// Its encoding.
    pub fn to_bytes(&self) -> Vec<u8> {
        // No field has a limit that could fail.
        to_vec(self).unwrap_or_default()
    }

    /// Reads an offer. Bytes behind the last field are left to later versions.
    ///
    /// # Errors
    /// [`ProtocolError::BadHello`] if it is none.
    pub fn parse(bytes: &Bytes) -> Result<Self, ProtocolError> {
        let r = &mut Reader::from_bytes(bytes, &Limits::DEFAULT);
        let offer: Result<Self, DecodeError> = (|| {
            Ok(Self {
                max_message: Decode::decode(r)?,
                max_calls: Decode::decode(r)?,
                sealing: sealing(r)?,
                suites: Suites::from_byte(r.u8()?),
                fingerprints: Decode::decode(r)?,
                early: Decode::decode(r)?,
                stream_window: stream_window(r)?,
                lz4: lz4(r)?,
                lasting: Lasting::read(r)?,
            })
        })();
        offer.map_err(ProtocolError::BadHello)
    }

    /// What both sides keep to, as the accepting side sees it.
    pub(super) fn terms(&self, ours: &Params, sealing: Sealing) -> Terms {
        let lasting = self.lasting != Lasting::No;
        terms(ours, (self.max_message, self.max_calls), self.stream_window, (self.lz4, lasting), sealing)
    }
}

impl Encode for Offer {
    fn encode(&self, w: &mut Writer<'_>) {
        self.max_message.encode(w);
        self.max_calls.encode(w);
        w.put_u8(self.sealing.to_byte());
        w.put_u8(self.suites.to_byte());
        self.fingerprints.encode(w);
        self.early.encode(w);
        put_last(w, self.stream_window, self.lz4, self.lasting != Lasting::No);
        if self.lasting != Lasting::No {
            self.lasting.write(w);
        }
    }
}

impl Answer {
    /// The accepting side's answer to an offer.
    ///
    /// # Errors
    /// The reason to refuse the peer for.
    pub(super) fn new(
        offer: &Offer,
        ours: &Params,
        sealing: Sealing,
        suite: Option<Suite>,
        ticket: Option<Grant>,
        kept: Option<Kept>,
    ) -> Result<Self, CloseReason> {
        let answer = Self {
            version: VERSION,
            max_message: clamp(ours.max_message),
            max_calls: clamp(ours.max_calls),
            sealing,
            suite,
            differing: ours.contracts.differing(&offer.fingerprints),
            ticket,
            stream_window: clamp(ours.stream_window),
            lz4: ours.compression,
            lasting: kept,
        };
        if answer.to_bytes().len() > MAX_PARAMS {
            let message = format!("{} shared packets differ, too many to describe", answer.differing.len());
            return Err(CloseReason::new(CloseCode::Incompatible, message));
        }
        Ok(answer)
    }

    /// Its encoding.
    pub fn to_bytes(&self) -> Vec<u8> {
        // No field has a limit that could fail.
        to_vec(self).unwrap_or_default()
    }

    /// Reads an answer. Bytes behind the last field are left to later versions.
    ///
    /// # Errors
    /// [`ProtocolError::BadHello`] if it is none.
    pub fn parse(bytes: &Bytes) -> Result<Self, ProtocolError> {
        let r = &mut Reader::from_bytes(bytes, &Limits::DEFAULT);
        let answer: Result<Self, DecodeError> = (|| {
            Ok(Self {
                version: r.u8()?,
                max_message: Decode::decode(r)?,
                max_calls: Decode::decode(r)?,
                sealing: sealing(r)?,
                suite: suite(r)?,
                differing: Decode::decode(r)?,
                ticket: Option::<([u8; TicketId::LEN], u32)>::decode(r)?
                    .map(|(id, secs)| Grant::new(TicketId::from_bytes(id), Duration::from_secs(secs.into()))),
                stream_window: stream_window(r)?,
                lz4: lz4(r)?,
                lasting: Kept::read(r)?,
            })
        })();
        answer.map_err(ProtocolError::BadHello)
    }

    /// What both sides keep to, as the connecting side sees it. `asked` is what it wanted sealed.
    ///
    /// # Errors
    /// [`Disagreement`] says why there can be no connection.
    pub(super) fn terms(&self, ours: &Params, asked: Sealing) -> Result<Terms, Disagreement> {
        if self.version != VERSION {
            return Err(Disagreement::Version);
        }
        // Asked for none, there is nothing to seal with.
        if self.sealing < asked || (asked == Sealing::None && self.sealing != asked) {
            return Err(Disagreement::Sealing);
        }
        ours.contracts.check(&self.differing).map_err(Disagreement::Contracts)?;
        let flags = (self.lz4, self.lasting.is_some());
        Ok(terms(ours, (self.max_message, self.max_calls), self.stream_window, flags, self.sealing))
    }
}

impl Encode for Answer {
    fn encode(&self, w: &mut Writer<'_>) {
        w.put_u8(self.version);
        self.max_message.encode(w);
        self.max_calls.encode(w);
        w.put_u8(self.sealing.to_byte());
        w.put_u8(self.suite.map_or(0, Suite::to_byte));
        self.differing.encode(w);
        let secs = |lifetime: Duration| u32::try_from(lifetime.as_secs()).unwrap_or(u32::MAX);
        self.ticket.as_ref().map(|grant| (*grant.id.as_bytes(), secs(grant.lifetime))).encode(w);
        put_last(w, self.stream_window, self.lz4, self.lasting.is_some());
        if self.lasting.is_some() {
            Kept::write(self.lasting.as_ref(), w);
        }
    }
}

/// Why an answer cannot be lived with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Disagreement {
    /// A version that was not offered.
    Version,
    /// Less is sealed than was asked for.
    Sealing,
    /// A shared packet differs in a way that the rules of growth do not allow.
    Contracts(Mismatch),
}

fn sealing(r: &mut Reader<'_>) -> Result<Sealing, DecodeError> {
    let byte = r.u8()?;
    Sealing::from_byte(byte).ok_or(DecodeErrorKind::UnknownVariant { found: byte.into() }.into())
}

fn suite(r: &mut Reader<'_>) -> Result<Option<Suite>, DecodeError> {
    match r.u8()? {
        0 => Ok(None),
        byte => match Suite::from_byte(byte) {
            Some(suite) => Ok(Some(suite)),
            None => Err(DecodeErrorKind::UnknownVariant { found: byte.into() }.into()),
        },
    }
}

/// Left out by those who know no streams.
fn stream_window(r: &mut Reader<'_>) -> Result<u32, DecodeError> {
    if r.remaining() < 4 { Ok(0) } else { Decode::decode(r) }
}

/// Left out by those who take nothing compressed. Behind a window that was left out there is nothing.
fn lz4(r: &mut Reader<'_>) -> Result<bool, DecodeError> {
    Ok(!r.is_empty() && r.u8()? & LZ4 != 0)
}

/// The fields that may be left out.
fn put_last(w: &mut Writer<'_>, window: u32, lz4: bool, more: bool) {
    if window > 0 || lz4 || more {
        window.encode(w);
    }
    if lz4 || more {
        w.put_u8(if lz4 { LZ4 } else { 0 });
    }
}

fn terms(
    ours: &Params,
    (max_message, max_calls): (u32, u32),
    window: u32,
    (lz4, lasting): (bool, bool),
    sealing: Sealing,
) -> Terms {
    Terms {
        version: VERSION,
        message_out: ours.max_send.min(max_message as usize),
        message_in: ours.max_message,
        calls_out: max_calls as usize,
        calls_in: ours.max_calls,
        window_out: window as usize,
        window_in: clamp(ours.stream_window) as usize,
        compression_out: ours.compression && lz4,
        compression_in: ours.compression,
        lasting: lasting && ours.lasting != Lasting::No,
        sealing,
    }
}

pub(super) fn clamp(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// The bit for LZ4 among the kinds of compression.
const LZ4: u8 = 0x01;

/// The longest encoding of either side's parameters, in bytes: what fits a Noise message, and then some room.
pub(super) const MAX_PARAMS: usize = 65_000;
