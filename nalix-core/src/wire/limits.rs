//! What a decoder may be asked to do by the bytes it is given.

use crate::setters::setters;

/// Bounds on decoding one message. They hold on every path: no type can opt out.
///
/// Each is a field, and has a method of the same name that sets it: `Limits::default().max_depth(16)`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// How deep values may nest through `Box`, `Vec`, maps and other containers. Default 64.
    ///
    /// Too low refuses honest trees; too high lets a peer use that many stack frames, of the size of the user's types.
    pub max_depth: u16,
    /// How many items that take no bytes on the wire a message may have in all. Default 65,536.
    ///
    /// Items that do take bytes are bounded by the input. Too low refuses honest `Vec<()>`s; too high lets a few bytes
    /// cost that many loop turns.
    pub max_empty_items: usize,
    /// How many bytes of memory each byte of input may turn into. Default 32, besides [`free_memory`](field@Limits::free_memory).
    ///
    /// Every collection, string and box is charged with the size of its items in memory. Too low refuses honest
    /// messages of many small items (a `Vec<Option<BigStruct>>` of `None`s); too high lets a small message take
    /// much memory.
    pub memory_factor: usize,
    /// Bytes of memory a message may use whatever its size. Default 16,384.
    ///
    /// Too low refuses honest messages that are small on the wire only: a map takes room for several entries even if it
    /// holds one. Too high lets each tiny message take that much while it is handled.
    pub free_memory: usize,
}

impl Limits {
    /// The defaults as a constant.
    pub const DEFAULT: Limits =
        Limits { max_depth: 64, max_empty_items: 65_536, memory_factor: 32, free_memory: 16_384 };

    /// The memory that decoding `input` bytes may use.
    pub(crate) fn budget(&self, input: usize) -> usize {
        input.saturating_mul(self.memory_factor).saturating_add(self.free_memory)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

setters!(Limits { max_depth: u16, max_empty_items: usize, memory_factor: usize, free_memory: usize });
