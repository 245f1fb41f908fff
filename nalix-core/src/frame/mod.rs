//! Frames: what travels inside records. One tag byte, an id and an opcode where the kind has them, a length, a payload.
//!
//! See `docs/protocol.md`, "Frames". Parsing and building are pure functions over slices.

mod control;
mod entries;
mod failure;
mod header;
mod metadata;

pub use self::{
    control::Control,
    entries::{Entries, MAX_ENTRIES, MAX_KEY},
    failure::{decode_failure, encode_application, encode_status},
    header::{FrameKind, Head, Parsed, parse, put_head},
    metadata::{Block, MAX_METADATA, Metadata},
};

/// The most bytes a frame takes besides its payload and metadata: tag, id, opcode, length.
pub const MAX_OVERHEAD: usize = 1 + 5 + 2 + 5;
