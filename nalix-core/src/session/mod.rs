//! The two one-way paths of a connection, without I/O: bytes in and frames out, frames in and bytes out.

mod assembly;
mod budget;
mod compress;
mod fragments;
mod inbound;
mod inflate;
mod lane;
mod lasting;
mod outbound;
mod partial;
mod queues;
mod ranked;
mod resend;

pub use self::{
    budget::MemoryBudget,
    fragments::{Completed, TakenBack},
    inbound::{Frame, Inbound, Record, Unfinished},
    lasting::control_of,
    outbound::{Appended, Outbound},
};

pub(crate) use self::budget::Share;
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

/// The longest record body that peers send each other once they are connected, without the tag of a sealed one: a batch that
/// was just below its target size when one frame of the largest size was added.
pub const MAX_RECORD: usize =
    record::TARGET_BODY + frame::FRAGMENT + frame::MAX_METADATA + 2 + frame::MAX_START + frame::MAX_OVERHEAD;

/// The longest payload of an Error frame, in bytes: an application error of the largest size and the byte in front of it,
/// or a status, which must fit however small the message limit is.
pub const fn max_error(max_message: usize) -> usize {
    if max_message < STATUS_ROOM { STATUS_ROOM } else { max_message + 1 }
}

/// The longest payload of an Item frame, in bytes.
pub const fn max_items(max_message: usize) -> usize {
    if max_message < frame::FRAGMENT - 5 { max_message + 5 } else { frame::FRAGMENT }
}

/// The highest message limit, in bytes: 1 GiB. Higher settings are cut to it.
pub const MAX_MESSAGE: usize = 1 << 30;

/// Room for any status or close reason: their messages are cut at 1,024 bytes.
const STATUS_ROOM: usize = 1_100;
