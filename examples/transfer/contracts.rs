//! What the two sides say to each other.

use nalix_core::{Bytes, Wire, packet};

use crate::names::NameFault;

/// Stores a file: its content follows as an upload. One of the same name is replaced once the new one is whole.
#[packet(opcode = 0x4001, upload = Bytes, reply = (), error = PutError)]
pub struct Put {
    #[wire(max_len = 512)]
    pub name: String,
    pub content: Content,
}

/// Answered with what a file is like.
#[packet(opcode = 0x1001, reply = Content, error = GetError)]
pub struct Stat {
    #[wire(max_len = 512)]
    pub name: String,
}

/// Answered with the content of a file.
#[packet(opcode = 0x4002, stream = Bytes, error = GetError)]
pub struct Get {
    #[wire(max_len = 512)]
    pub name: String,
}

/// A small call beside the large ones.
#[packet(opcode = 0x1002, reply = ())]
pub struct Ping;

/// The bytes of a file at a time. An item of a stream has to fit a frame, which takes 16 KiB with what is around it.
pub const CHUNK: usize = 16_000;

/// By what two contents are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Wire)]
pub struct Content {
    /// In bytes.
    pub size: u64,
    pub crc: u32,
}

/// Why a [`Put`] fails.
#[derive(Debug, PartialEq, Wire, thiserror::Error)]
pub enum PutError {
    #[error("that cannot be the name of a file here: {0}")]
    BadName(#[source] NameFault),
    #[error("the file is too large: it has {size} bytes, {limit} are allowed")]
    TooLarge { size: u64, limit: u64 },
    #[error("the file is not stored: what came is not what was announced")]
    NotAsAnnounced,
}

/// Why a [`Stat`] or a [`Get`] fails.
#[derive(Debug, PartialEq, Wire, thiserror::Error)]
pub enum GetError {
    #[error("that cannot be the name of a file here: {0}")]
    BadName(#[source] NameFault),
    #[error("there is no file of that name")]
    NotFound,
}
