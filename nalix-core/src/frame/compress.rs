//! Compressed messages: how long the message is, and an LZ4 block.
//!
//! See `docs/protocol.md`, "Compression". Both directions are pure functions over slices; what compressing needs besides is
//! kept by each thread for the next message.

use std::cell::Cell;

use bytes::Bytes;
use lz4_flex::block::{CompressTable, compress_into_with_table, decompress_into, get_maximum_output_size};

use crate::{
    error::{EncodeError, ProtocolError},
    wire::{Writer, varint},
};

/// From how many bytes on a message is compressed whose packet is marked without a number.
pub const COMPRESS_FROM: usize = 1024;

/// Compresses a message for `f`, which is given `None` if it would not become shorter.
pub fn compressed<T>(message: &[u8], f: impl FnOnce(Option<&[u8]>) -> T) -> T {
    Scratch::with(|scratch| f(scratch.compress(message)))
}

/// As [`compressed`], for a message of at most `limit` bytes that `write` writes. `f` is given its bytes in the form in
/// which they are to travel, and whether that is the compressed one: not if there are fewer than `from`.
///
/// # Errors
/// [`EncodeError`] if the message is over the limit or cannot be encoded.
pub fn written<T>(
    limit: usize,
    from: usize,
    write: impl FnOnce(&mut Writer<'_>),
    f: impl FnOnce(&[u8], bool) -> T,
) -> Result<T, EncodeError> {
    Scratch::with(|scratch| {
        let mut message = std::mem::take(&mut scratch.message);
        let mut w = Writer::new(&mut message, limit);
        write(&mut w);
        let len = w.finish()?;
        let done = match if len < from { None } else { scratch.compress(&message) } {
            Some(bytes) => f(bytes, true),
            None => f(&message, false),
        };
        message.clear();
        scratch.message = message;
        Ok(done)
    })
}

/// The start of a compressed message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compressed<'a> {
    /// How many bytes the message has when it is inflated. All that is known is that they are more than the block's.
    pub len: usize,
    /// What there is of the block.
    pub block: &'a [u8],
}

impl<'a> Compressed<'a> {
    /// Reads a compressed message of `total` bytes, of which these are the first.
    ///
    /// # Errors
    /// [`ProtocolError::BadFrame`] if it does not say its length, or is no shorter than the message that it stands for.
    pub fn split(first: &'a [u8], total: usize) -> Result<Self, ProtocolError> {
        let (len, block) = varint::split(first).map_err(|_| bad("compressed message without its length"))?;
        let len = u32::try_from(len).map_err(|_| bad("compressed message with a length over 32 bits"))?;
        let len = len as usize;
        if len <= total {
            return Err(bad("compressed message that is no shorter than without"));
        }
        Ok(Self { len, block })
    }

    /// The message. Nothing is reserved for it before it is known that the block holds so many bytes, neither more nor fewer.
    ///
    /// # Errors
    /// [`ProtocolError::BadFrame`] if it does not, or is no LZ4 block.
    pub fn inflate(&self) -> Result<Bytes, ProtocolError> {
        check(self.block, self.len)?;
        // Never one that has been used: what a broken block leaves unwritten must not be another's.
        let mut message = vec![0; self.len];
        match decompress_into(self.block, &mut message) {
            Ok(n) if n == self.len => Ok(message.into()),
            _ => Err(bad(BROKEN)),
        }
    }
}

/// Walks through the sequences of a block and checks that they make `len` bytes. It stops where they make more, so a short
/// block that inflates to very many costs no more than another.
fn check(block: &[u8], len: usize) -> Result<(), ProtocolError> {
    let mut rest = block;
    // In front of which so many bytes have been made.
    let mut made = 0;
    loop {
        let (&token, behind) = rest.split_first().ok_or(bad(BROKEN))?;
        rest = behind;
        let literals = length(token >> 4, &mut rest, len)?;
        made = add(made, literals, len)?;
        rest = rest.get(literals..).ok_or(bad(BROKEN))?;
        if rest.is_empty() {
            // The last sequence has no match.
            return if made == len { Ok(()) } else { Err(bad(SHORT)) };
        }
        let (offset, behind) = rest.split_first_chunk().ok_or(bad(BROKEN))?;
        rest = behind;
        let offset = usize::from(u16::from_le_bytes(*offset));
        if offset == 0 || offset > made {
            return Err(bad("compressed message that refers to what is before it"));
        }
        made = add(made, MIN_MATCH, len)?;
        made = add(made, length(token & 0xf, &mut rest, len)?, len)?;
    }
}

/// A length that starts with four bits: 15 stands for as much as the bytes behind say, up to the first below 255.
fn length(start: u8, rest: &mut &[u8], limit: usize) -> Result<usize, ProtocolError> {
    let mut sum = usize::from(start);
    if start < 15 {
        return Ok(sum);
    }
    loop {
        let (&more, behind) = rest.split_first().ok_or(bad(BROKEN))?;
        *rest = behind;
        sum = add(sum, usize::from(more), limit)?;
        if more < 255 {
            return Ok(sum);
        }
    }
}

fn add(made: usize, more: usize, len: usize) -> Result<usize, ProtocolError> {
    match made.checked_add(more) {
        Some(sum) if sum <= len => Ok(sum),
        _ => Err(bad("compressed message that is longer than it says")),
    }
}

/// What compressing needs besides the message. One for each thread, so that connections which are idle take none.
#[derive(Default)]
struct Scratch {
    /// Where messages are encoded.
    message: Vec<u8>,
    /// Where they are compressed. Its length is its capacity: it is overwritten from the front.
    out: Vec<u8>,
    /// For messages below 64 KiB, which need a smaller one.
    table: CompressTable,
}

thread_local! {
    static KEPT: Cell<Option<Box<Scratch>>> = const { Cell::new(None) };
}

impl Scratch {
    /// Lends `f` what the thread keeps. A user's `Encode` that compresses something inside gets another.
    fn with<T>(f: impl FnOnce(&mut Scratch) -> T) -> T {
        let mut scratch = KEPT.try_with(Cell::take).ok().flatten().unwrap_or_default();
        let done = f(&mut scratch);
        if scratch.message.capacity() > KEEP {
            scratch.message = Vec::new();
        }
        if scratch.out.len() > KEEP {
            scratch.out = Vec::new();
        }
        // At the end of the thread there is nobody to keep it.
        let _ = KEPT.try_with(|kept| kept.set(Some(scratch)));
        done
    }

    /// The form in which a message travels compressed, if that is shorter.
    fn compress(&mut self, message: &[u8]) -> Option<&[u8]> {
        let len = u32::try_from(message.len()).ok()?;
        let room = varint::MAX_LEN + get_maximum_output_size(message.len());
        if self.out.len() < room {
            // Not grown: what it holds is of no use.
            self.out = vec![0; room.next_power_of_two().min(KEEP).max(room)];
        }
        let start = varint::put(len.into(), &mut self.out);
        let mut large = None;
        let table = match message.len() < usize::from(u16::MAX) {
            true => &mut self.table,
            false => large.insert(CompressTable::large()),
        };
        let n = compress_into_with_table(message, &mut self.out[start..], table).ok()?;
        self.out.get(..start + n).filter(|bytes| bytes.len() < message.len())
    }
}

const fn bad(what: &'static str) -> ProtocolError {
    ProtocolError::BadFrame { what }
}

const BROKEN: &str = "compressed message that is broken";
const SHORT: &str = "compressed message that is shorter than it says";
/// The shortest match of a block.
const MIN_MATCH: usize = 4;
/// Buffers that have grown beyond this are not kept, in bytes.
const KEEP: usize = 128 * 1024;
