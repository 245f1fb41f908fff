//! Frames: what travels inside records. One tag byte, an id and an opcode where the kind has them, a length, a payload.
//!
//! See `docs/protocol.md`, "Frames". Parsing and building are pure functions over slices.

pub mod compress;
mod control;
mod entries;
mod failure;
mod header;
mod metadata;
mod token;

pub(crate) use self::header::put_head_and_room;
pub use self::{
    control::Control,
    entries::{Entries, MAX_ENTRIES, MAX_KEY},
    failure::{decode_failure, encode_application, encode_status},
    header::{FrameKind, Head, Parsed, parse, put_head},
    metadata::{Block, MAX_METADATA, Metadata},
    token::ResumeToken,
};

/// The most bytes a frame takes besides its payload and metadata: tag, id, opcode, length.
pub const MAX_OVERHEAD: usize = 1 + 5 + 2 + 5;

/// The most bytes of a message that one frame carries. What is longer is cut, so that it never holds up for long what
/// comes behind it.
pub const FRAGMENT: usize = 16 * 1024;

/// How many messages in each direction may be unfinished at a time, each in a slot of its own.
pub const SLOTS: usize = 4;

/// The most bytes that the first fragment of a message has in front of its metadata: the slot and the message's length.
pub const MAX_START: usize = 1 + 5;
