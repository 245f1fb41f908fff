//! The two one-way paths of a connection, without I/O: bytes in and frames out, frames in and bytes out.

mod inbound;
mod outbound;

pub use self::{
    inbound::{Frame, Inbound, Record},
    outbound::{Appended, Outbound},
};

use crate::{frame, record};

/// The longest record body that peers with this message limit send each other: a batch that was just below its target
/// size when one message of the largest size was added.
pub const fn max_record(max_message: usize) -> usize {
    let most = record::TARGET_BODY + max_message + frame::MAX_METADATA + 2 + frame::MAX_OVERHEAD;
    if most < record::MAX_BODY { most } else { record::MAX_BODY }
}

/// The highest message limit that fits a record, in bytes. Higher settings are cut to it.
pub const MAX_MESSAGE: usize =
    record::MAX_BODY - record::TARGET_BODY - frame::MAX_METADATA - 2 - frame::MAX_OVERHEAD;
