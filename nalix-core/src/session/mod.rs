//! The two one-way paths of a connection, without I/O: bytes in and frames out, frames in and bytes out.

mod inbound;
mod outbound;

pub use self::{
    inbound::{Frame, Inbound, Record},
    outbound::{Appended, Outbound},
};

use crate::{frame, record};

/// In what kind of record a frame travels, on a connection that has both kinds: under
/// [`Sealing::Marked`](crate::handshake::Sealing). On others there is no choice, and all frames travel alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cover {
    /// In a Sealed record.
    Sealed,
    /// In a Plain record.
    Plain,
}

impl Cover {
    /// [`Cover::Sealed`] if it is.
    #[inline]
    pub const fn of(sealed: bool) -> Self {
        if sealed { Cover::Sealed } else { Cover::Plain }
    }

    /// Whether it is [`Cover::Sealed`].
    #[inline]
    pub const fn is_sealed(self) -> bool {
        matches!(self, Cover::Sealed)
    }
}

/// The longest record body that peers with this message limit send each other: a batch that was just below its target
/// size when one message of the largest size was added, or a status if that is larger.
pub const fn max_record(max_message: usize) -> usize {
    let largest = if max_message > STATUS_ROOM { max_message } else { STATUS_ROOM };
    let most = record::TARGET_BODY + largest + frame::MAX_METADATA + 2 + frame::MAX_OVERHEAD;
    if most < record::MAX_BODY { most } else { record::MAX_BODY }
}

/// The longest payload of an Error frame, in bytes: an application error of the largest size and the byte in front of it,
/// or a status, which must fit however small the message limit is.
pub const fn max_error(max_message: usize) -> usize {
    if max_message < STATUS_ROOM { STATUS_ROOM } else { max_message + 1 }
}

/// The longest payload of an Item frame, in bytes: an item of the largest size and its length in front.
pub const fn max_items(max_message: usize) -> usize {
    max_message + 5
}

/// The highest message limit that fits a record, in bytes. Higher settings are cut to it.
pub const MAX_MESSAGE: usize =
    record::MAX_BODY - record::TAG - record::TARGET_BODY - frame::MAX_METADATA - 2 - frame::MAX_OVERHEAD;

/// Room for any status or close reason: their messages are cut at 1,024 bytes.
const STATUS_ROOM: usize = 1_100;
