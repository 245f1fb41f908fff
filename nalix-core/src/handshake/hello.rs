//! The hellos themselves.

use bytes::Bytes;

use super::{Contracts, MAX_HELLO_REPLY, Mismatch, VERSION};
use crate::{
    error::{DecodeError, ProtocolError},
    frame::Control,
    schema::Contract,
    status::{CloseCode, CloseReason},
    wire::{Decode, Encode, Limits, Reader, Writer, to_vec},
};

/// What one side brings into the handshake.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Params {
    /// The longest message it takes and sends, in bytes.
    pub max_message: usize,
    /// How many calls of the peer's it keeps in flight.
    pub max_calls: usize,
    /// The packets it knows.
    pub contracts: Contracts,
}

impl Params {
    /// Puts parameters together.
    pub fn new(max_message: usize, max_calls: usize, contracts: Contracts) -> Self {
        Self { max_message, max_calls, contracts }
    }
}

/// What both sides have agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Terms {
    /// The protocol version.
    pub version: u8,
    /// The longest message in either direction, in bytes: the smaller of both sides' limits.
    pub max_message: usize,
    /// How many calls of ours the peer keeps in flight.
    pub calls_out: usize,
    /// How many calls of the peer's we keep in flight.
    pub calls_in: usize,
    /// What is sealed.
    pub sealing: Sealing,
}

/// Which packets travel in sealed records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sealing {
    /// None: the connection is not secured.
    None,
    /// Those marked `encrypt` and their answers, and everything that is not a packet.
    Marked,
    /// All.
    All,
}

/// The first record of the side that connects.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hello {
    /// The lowest version it speaks.
    pub min_version: u8,
    /// The highest version it speaks.
    pub max_version: u8,
    /// Its message limit, in bytes.
    pub max_message: u32,
    /// How many calls it keeps in flight.
    pub max_calls: u32,
    /// Opcode and fingerprint of every packet it knows.
    pub fingerprints: Vec<(u16, u64)>,
}

/// The first record of the side that accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HelloReply {
    /// The version chosen.
    pub version: u8,
    /// Its message limit, in bytes.
    pub max_message: u32,
    /// How many calls it keeps in flight.
    pub max_calls: u32,
    /// Its contracts of the packets whose fingerprints differ.
    pub differing: Vec<(u16, Contract)>,
}

impl Hello {
    /// The hello of a side with these parameters.
    pub fn new(params: &Params) -> Self {
        Self {
            min_version: VERSION,
            max_version: VERSION,
            max_message: clamp(params.max_message),
            max_calls: clamp(params.max_calls),
            fingerprints: params.contracts.fingerprints(),
        }
    }

    /// The body of its record.
    pub fn body(&self) -> Vec<u8> {
        // No field has a limit that could fail.
        to_vec(self).unwrap_or_default()
    }

    /// Reads a body. Bytes behind the last field are left to later versions.
    ///
    /// # Errors
    /// [`ProtocolError`] if it is no hello.
    pub fn parse(body: &Bytes) -> Result<Self, ProtocolError> {
        let mut r = Reader::from_bytes(body, &Limits::DEFAULT);
        if r.bytes(MAGIC.len()) != Ok(&MAGIC[..]) {
            return Err(ProtocolError::BadMagic);
        }
        let hello: Result<Self, DecodeError> = (|| {
            Ok(Self {
                min_version: r.u8()?,
                max_version: r.u8()?,
                max_message: Decode::decode(&mut r)?,
                max_calls: Decode::decode(&mut r)?,
                fingerprints: Decode::decode(&mut r)?,
            })
        })();
        hello.map_err(ProtocolError::BadHello)
    }
}

impl Encode for Hello {
    fn encode(&self, w: &mut Writer<'_>) {
        w.put(MAGIC);
        w.put_u8(self.min_version);
        w.put_u8(self.max_version);
        self.max_message.encode(w);
        self.max_calls.encode(w);
        self.fingerprints.encode(w);
    }
}

impl HelloReply {
    /// The body of its record.
    pub fn body(&self) -> Vec<u8> {
        to_vec(self).unwrap_or_default()
    }

    /// Reads a body. Bytes behind the last field are left to later versions.
    ///
    /// # Errors
    /// [`ProtocolError`] if it is no reply to a hello.
    pub fn parse(body: &Bytes) -> Result<Self, ProtocolError> {
        let mut r = Reader::from_bytes(body, &Limits::DEFAULT);
        let reply: Result<Self, DecodeError> = (|| {
            Ok(Self {
                version: r.u8()?,
                max_message: Decode::decode(&mut r)?,
                max_calls: Decode::decode(&mut r)?,
                differing: Decode::decode(&mut r)?,
            })
        })();
        reply.map_err(ProtocolError::BadHello)
    }
}

impl Encode for HelloReply {
    fn encode(&self, w: &mut Writer<'_>) {
        w.put_u8(self.version);
        self.max_message.encode(w);
        self.max_calls.encode(w);
        self.differing.encode(w);
    }
}

/// The accepting side's part: answers a hello, or says why not.
///
/// # Errors
/// The reason to send in an Abort record.
pub fn accept(hello: &Hello, ours: &Params) -> Result<(HelloReply, Terms), CloseReason> {
    if !(hello.min_version..=hello.max_version).contains(&VERSION) {
        let message = format!(
            "this side speaks protocol version {VERSION}, the peer {} to {}",
            hello.min_version, hello.max_version
        );
        return Err(CloseReason::new(CloseCode::Incompatible, message));
    }
    let reply = HelloReply {
        version: VERSION,
        max_message: clamp(ours.max_message),
        max_calls: clamp(ours.max_calls),
        differing: ours.contracts.differing(&hello.fingerprints),
    };
    if reply.body().len() > MAX_HELLO_REPLY {
        let message = format!("{} shared packets differ, too many to describe", reply.differing.len());
        return Err(CloseReason::new(CloseCode::Incompatible, message));
    }
    Ok((reply, terms(ours, hello.max_message, hello.max_calls)))
}

/// The connecting side's part: takes the answer to its hello.
///
/// # Errors
/// [`Mismatch`] if a shared packet differs in a way that the rules of growth do not allow; `Ok(None)` if the version
/// chosen is not one that was offered.
pub fn finish(reply: &HelloReply, ours: &Params) -> Result<Option<Terms>, Mismatch> {
    if reply.version != VERSION {
        return Ok(None);
    }
    ours.contracts.check(&reply.differing)?;
    Ok(Some(terms(ours, reply.max_message, reply.max_calls)))
}

/// The body of an Abort record.
pub fn abort_body(reason: &CloseReason) -> Vec<u8> {
    to_vec(&Control::Close(reason.clone())).unwrap_or_default()
}

/// Reads the body of an Abort record; one that is malformed is as good as one without a reason.
pub fn read_abort(body: &Bytes) -> CloseReason {
    match Control::decode(body) {
        Ok(Control::Close(reason)) => reason,
        _ => CloseReason::new(CloseCode::ProtocolError, "unreadable abort").by(crate::Side::Peer),
    }
}

fn terms(ours: &Params, max_message: u32, max_calls: u32) -> Terms {
    Terms {
        version: VERSION,
        max_message: ours.max_message.min(max_message as usize),
        calls_out: max_calls as usize,
        calls_in: ours.max_calls,
        sealing: Sealing::None,
    }
}

fn clamp(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

const MAGIC: &[u8; 5] = b"nalix";
