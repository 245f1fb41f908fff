//! What can be sent: packets, and the shapes of conversation they open.

mod delivery;
mod encoded;

use std::convert::Infallible;

use bytes::Bytes;

use crate::{
    Opcode,
    error::DecodeError,
    permission::Permission,
    schema::Describe,
    wire::{Decode, DecodeOwned, Encode, Limits, Reader},
};

pub use self::{delivery::Delivery, encoded::Encoded};
pub use crate::frame::compress::COMPRESS_FROM;

/// An owned value that can travel both ways: a reply, an error, a field.
///
/// Every owned type with `#[derive(Wire)]` is one, and so are the standard types that `docs/protocol.md` lists.
pub trait Wire: Encode + DecodeOwned + Describe + Send + 'static {}

impl<T: Encode + DecodeOwned + Describe + Send + 'static> Wire for T {}

/// A value with an opcode: what travels at top level.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a packet",
    label = "not a packet",
    note = "mark the struct with `#[packet(opcode = ...)]`"
)]
pub trait Packet: Encode + Describe {
    /// Its number, unique among all packets that a process knows.
    const OPCODE: Opcode;
    /// Its name, for people and tools.
    const NAME: &'static str;
    /// Whether bytes behind the last known field are an error rather than ignored.
    const EXACT: bool = false;
    /// Whether it and its answer travel in sealed records only.
    const ENCRYPT: bool = false;
    /// From how many bytes on it and its answer are compressed, if they become shorter by it and the peer can inflate them.
    /// `None`: never.
    const COMPRESS: Option<usize> = None;
    /// Whether it is answered with a stream of items.
    const STREAMS: bool = false;
    /// Whether a stream of chunks follows it.
    const UPLOADS: bool = false;
    /// How urgent it and its answer are. `None`: [`Priority::Normal`], or where they do not fit a frame, by their size.
    const PRIORITY: Option<Priority> = None;

    /// Whether running it twice does what running it once does, so that it may be sent again when nobody knows whether it has
    /// run.
    const IDEMPOTENT: bool = false;

    /// What becomes of it, if it is one-way, when its receiver is slow and the call does not say. Default
    /// [`Delivery::Reliable`].
    const DELIVERY: Delivery = Delivery::Reliable;

    /// What a peer must be allowed at least for its handler to take it.
    const PERMISSION: Option<Permission> = None;
    /// How many bytes of its encoding its handler takes at most.
    const MAX_SIZE: Option<usize> = None;

    /// Its encoding, if it is encoded already: a message of over 16 KiB is sent from there, without a copy of its own for
    /// each connection. It must be what [`Encode::encode`] writes.
    #[inline]
    fn encoding(&self) -> Option<&Bytes> {
        None
    }

    /// What is known of its compressed form before it is sent.
    #[doc(hidden)]
    fn __compressed(&self) -> Precompressed<'_> {
        Precompressed::Unknown
    }
}

/// What is known of the compressed form of a packet.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub enum Precompressed<'a> {
    /// Nothing.
    Unknown,
    /// It has none, since it is too short or would not become shorter.
    Useless,
    /// All.
    Known {
        /// How many bytes the packet has without.
        len: usize,
        /// What travels.
        bytes: &'a Bytes,
    },
}

/// How urgent a packet is: what overtakes what when more waits to be written than the link takes, and how it is shared.
///
/// It is part of the packet's definition, of which each side has its own: the answer to a call, items of a stream included, has
/// the priority that the packet has *here*, whatever the caller says or does.
///
/// None ever waits for the others to be done: when all have something to send, of 15 bytes 8 are control, 4 high, 2 normal and
/// 1 bulk. What is of one priority stays in order, as long as it fits frames: one-way packets, requests, and what is sent about
/// one call. Packets of different priorities may overtake each other.
///
/// Priorities begin to count when 64 KiB wait. What has been handed to the link is not overtaken any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Priority {
    /// What keeps a system going.
    Control,
    /// What somebody waits for.
    High,
    /// Everything else.
    #[default]
    Normal,
    /// What may take its time: files, backups. What is over 1 MiB is bulk unless its packet says otherwise.
    Bulk,
}

impl Priority {
    /// All, the most urgent first.
    pub(crate) const ALL: [Priority; 4] =
        [Priority::Control, Priority::High, Priority::Normal, Priority::Bulk];

    /// Its place in [`Priority::ALL`].
    #[inline]
    pub(crate) const fn index(self) -> usize {
        match self {
            Priority::Control => 0,
            Priority::High => 1,
            Priority::Normal => 2,
            Priority::Bulk => 3,
        }
    }

    /// Whether a packet with this one asks for anything but what all have.
    #[inline]
    pub(crate) const fn is_special(priority: Option<Priority>) -> bool {
        matches!(priority, Some(Priority::Control | Priority::High | Priority::Bulk))
    }
}

/// A packet that is answered.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a request",
    label = "has no reply type",
    note = "give it one with `#[packet(opcode = ..., reply = SomeType)]`, or send it with `send` as a one-way packet"
)]
pub trait Request: Packet {
    /// What the answer carries.
    type Reply: Wire;
    /// The error that the answer may carry instead; [`Infallible`] where the packet declares none.
    type Error: Wire;
}

/// A packet that is answered with a stream of items.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not answered with a stream",
    label = "has no stream",
    note = "give it one with `#[packet(opcode = ..., stream = Item)]`"
)]
pub trait Streams: Packet {
    /// The items.
    type Item: Wire;
    /// The error that may end the stream; [`Infallible`] where the packet declares none.
    type Error: Wire;
}

/// A packet that is followed by a stream of chunks.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no upload",
    label = "has no upload",
    note = "give it one with `#[packet(opcode = ..., upload = Chunk, reply = SomeType)]`"
)]
pub trait Uploads: Packet {
    /// The chunks.
    type Chunk: Wire;
}

/// A packet that is answered with a stream, and followed by nothing: what `stream` takes.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be asked for a stream",
    label = "has no stream, or has an upload too",
    note = "it takes `#[packet(opcode = ..., stream = Item)]`; open packets with both `stream` and `upload` with `duplex`"
)]
pub trait StreamRequest: Streams {}

/// A packet that is followed by an upload and answered once: what `upload` takes.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not start an upload",
    label = "has no upload, or has a stream too",
    note = "it takes `#[packet(opcode = ..., upload = Chunk, reply = SomeType)]`; open packets with both `stream` and \
            `upload` with `duplex`"
)]
pub trait UploadRequest: Uploads {
    /// What the answer carries.
    type Reply: Wire;
    /// The error that the answer may carry instead; [`Infallible`] where the packet declares none.
    type Error: Wire;
}

/// A packet with a stream in both directions: what `duplex` takes.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not open streams both ways",
    label = "lacks a stream or an upload",
    note = "it takes `#[packet(opcode = ..., upload = Chunk, stream = Item)]`"
)]
pub trait DuplexRequest: Streams + Uploads {}

/// A packet that is not answered.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a one-way packet",
    label = "has a reply, or is no packet at all",
    note = "a one-way packet is one marked `#[packet(opcode = ...)]` without `reply`; call the others with `request`"
)]
pub trait OneWay: Packet {}

/// A one-way packet that can be subscribed to: it owns what it holds, and can be shared between threads.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be subscribed to",
    label = "not an owned one-way packet",
    note = "subscribers share the decoded packet: it is marked `#[packet(opcode = ...)]` without `reply`, borrows \
            nothing, and is `Send + Sync`"
)]
pub trait Push: OneWay + DecodeOwned + Send + Sync + 'static {}

impl<T: OneWay + DecodeOwned + Send + Sync + 'static> Push for T {}

/// The error type of packets that declare none. [`RequestError`](crate::RequestError) and
/// [`StreamError`](crate::StreamError) have it where they are named without a parameter.
pub type NoError = Infallible;

/// Reads a packet from the payload of a frame, by the rules for top-level values: bytes behind the last known field are
/// ignored unless the packet is exact.
///
/// # Errors
/// [`DecodeError`] if the payload is not such a packet.
pub fn decode_packet<'de, P: Packet + Decode<'de>>(
    payload: &'de Bytes,
    limits: &Limits,
) -> Result<P, DecodeError> {
    let mut r = Reader::from_bytes(payload, limits);
    let packet = P::decode(&mut r)?;
    if P::EXACT {
        r.finish()?;
    }
    Ok(packet)
}

/// Reads a reply or an error from the payload of a frame; bytes behind the last known field are ignored.
///
/// # Errors
/// [`DecodeError`] if the payload is not such a value.
pub fn decode_value<T: DecodeOwned>(payload: &Bytes, limits: &Limits) -> Result<T, DecodeError> {
    T::decode(&mut Reader::from_bytes(payload, limits))
}
