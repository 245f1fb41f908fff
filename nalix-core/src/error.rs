//! Errors of the layers that know nothing of sockets, sorted by who is to blame.

use thiserror::Error;

use crate::Opcode;

/// Bytes that are not a value of the type they were read as. The sender is to blame.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{field}{kind}", field = .field.map(|f| format!("{f}: ")).unwrap_or_default())]
#[non_exhaustive]
pub struct DecodeError {
    /// What is wrong.
    pub kind: DecodeErrorKind,
    /// The innermost field that was being read, as `Type.field`, where one is known.
    pub field: Option<&'static str>,
}

impl DecodeError {
    /// An error about no field in particular.
    pub const fn new(kind: DecodeErrorKind) -> Self {
        Self { kind, field: None }
    }

    /// Names the field, unless a field further in has been named already.
    #[must_use]
    pub fn in_field(mut self, field: &'static str) -> Self {
        self.field.get_or_insert(field);
        self
    }
}

impl From<DecodeErrorKind> for DecodeError {
    fn from(kind: DecodeErrorKind) -> Self {
        Self::new(kind)
    }
}

/// What is wrong with bytes that do not decode.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DecodeErrorKind {
    /// The input ends inside a value.
    #[error("input ends {missing} bytes early")]
    Truncated {
        /// How many bytes more were needed at the least.
        missing: usize,
    },
    /// Bytes are left over behind a value that must fill its space exactly.
    #[error("{left} bytes left over")]
    TrailingBytes {
        /// How many.
        left: usize,
    },
    /// A varint has more bytes than it needs, or more than its type can hold.
    #[error("varint is not canonical or too large")]
    BadVarint,
    /// A `bool` or the tag of an `Option` is neither 0 nor 1.
    #[error("{found} is neither 0 nor 1")]
    BadFlag {
        /// The byte found.
        found: u8,
    },
    /// An enum has no variant of this number.
    #[error("no variant {found}")]
    UnknownVariant {
        /// The number found.
        found: u64,
    },
    /// A string is not UTF-8.
    #[error("string is not UTF-8")]
    NotUtf8,
    /// A `char` is not a Unicode scalar value.
    #[error("not a Unicode scalar value")]
    BadChar,
    /// A set or map holds a key twice.
    #[error("duplicate key")]
    DuplicateKey,
    /// A value is outside what its type allows (nanoseconds above 999,999,999, a zero in a `NonZero`, ...).
    #[error("value out of range for {expected}")]
    OutOfRange {
        /// The type or rule.
        expected: &'static str,
    },
    /// A string, byte slice or collection is longer than its `max_len`.
    #[error("length {found} is over the limit of {limit}")]
    TooLong {
        /// The length found.
        found: u64,
        /// The limit.
        limit: u64,
    },
    /// Values nest deeper than the limit.
    #[error("nested deeper than {limit} levels")]
    TooDeep {
        /// The limit.
        limit: u16,
    },
    /// Decoding would take far more memory than the input can justify.
    #[error("value needs more memory than its input justifies")]
    TooMuchMemory,
    /// Reported by a user's own codec (`#[wire(with = ...)]` or a hand-written `Decode`).
    #[error("{0}")]
    Custom(&'static str),
}

/// A value that cannot be put on the wire. Our caller is to blame; nothing has been sent.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The message is larger than the negotiated maximum.
    #[error("message is larger than the limit of {limit} bytes")]
    MessageTooLarge {
        /// The limit, in bytes.
        limit: usize,
    },
    /// A field is longer than its `max_len`.
    #[error("{field}: length {len} is over the limit of {limit}")]
    TooLong {
        /// The field, as `Type.field`.
        field: &'static str,
        /// Its length: bytes of a string or byte slice, items of a collection.
        len: usize,
        /// The limit, in the same unit.
        limit: usize,
    },
    /// Values nest deeper than the limit.
    #[error("nested deeper than {limit} levels")]
    TooDeep {
        /// The limit.
        limit: u16,
    },
    /// What was to travel besides the packet cannot.
    #[error("metadata: {what}")]
    Metadata {
        /// What is wrong with it.
        what: &'static str,
    },
    /// Reported by a user's own codec.
    #[error("{0}")]
    Custom(&'static str),
}

/// Two packets claim one opcode or one name. Both places are named; neither wins.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{what} is claimed twice: by `{first}` at {first_at} and by `{second}` at {second_at}")]
#[non_exhaustive]
pub struct DuplicateError {
    /// What is claimed: `opcode 0x1001`, `packet name "Ping"`, ...
    pub what: Box<str>,
    /// The opcode, where it is one.
    pub opcode: Option<Opcode>,
    /// Full path of the item that comes first (by path, so that the message does not depend on link order).
    pub first: Box<str>,
    /// `file:line` of the first.
    pub first_at: Box<str>,
    /// Full path of the other item.
    pub second: Box<str>,
    /// `file:line` of the other.
    pub second_at: Box<str>,
}

/// Bytes that are not this protocol. The peer is to blame, and the connection ends with
/// [`CloseCode::ProtocolError`](crate::CloseCode::ProtocolError).
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// The first byte of a record is no kind of record.
    #[error("unknown kind of record {found:#04x}")]
    UnknownRecord {
        /// The byte found.
        found: u8,
    },
    /// A record that must not come in this phase of the connection.
    #[error("unexpected {found} record")]
    UnexpectedRecord {
        /// Its kind.
        found: &'static str,
    },
    /// A record says it is longer than allowed, or has no content.
    #[error("record of {found} bytes, the limit is {limit}")]
    RecordLength {
        /// The length in its header.
        found: usize,
        /// The limit in this phase.
        limit: usize,
    },
    /// The link ended inside a record.
    #[error("the link ended {missing} bytes before the end of a record")]
    CutRecord {
        /// How many bytes are missing at the least.
        missing: usize,
    },
    /// The link ended inside a message that came in fragments.
    #[error("the link ended {missing} bytes before the end of a message")]
    CutMessage {
        /// How many bytes of its payload are missing, or of all such messages if there are several.
        missing: usize,
    },
    /// A sealed record is not the one that the peer sealed at this place.
    #[error("a sealed record did not open")]
    Unauthentic,
    /// One direction has carried as many sealed records as its counter allows.
    #[error("too many records for one connection")]
    TooManyRecords,
    /// A frame does not parse.
    #[error("bad frame: {what}")]
    BadFrame {
        /// What is wrong.
        what: &'static str,
    },
    /// A message is longer than the limit that both sides agreed on.
    #[error("message of {found} bytes, the limit is {limit}")]
    MessageTooLarge {
        /// Its length.
        found: usize,
        /// The limit.
        limit: usize,
    },
    /// An id that the peer may not use: above the limit, or in use.
    #[error("call id {found} {what}")]
    BadCallId {
        /// The id.
        found: u32,
        /// What is wrong with it.
        what: &'static str,
    },
    /// Something that must be sealed came in the clear.
    #[error("unsealed {what}")]
    Unsealed {
        /// What came.
        what: &'static str,
    },
    /// The handshake's content is wrong.
    #[error("bad hello: {0}")]
    BadHello(DecodeError),
    /// The peer does not speak this protocol at all.
    #[error("what it said is not nalix")]
    BadMagic,
}
