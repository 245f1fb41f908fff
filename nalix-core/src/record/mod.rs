//! Records: what a link carries. A kind, a length, a body; the body of a Plain record is one or more frames.
//!
//! Everything that touches the keys and counters of sealed records is here. See `docs/protocol.md`, "Records".

#[cfg(all(
    feature = "accelerated",
    target_endian = "little",
    any(target_arch = "x86", target_arch = "x86_64", target_arch = "arm", target_arch = "aarch64")
))]
mod accelerated;
mod cipher;
mod key;
mod portable;
mod seal;
mod suite;
#[cfg(not(all(
    feature = "accelerated",
    target_endian = "little",
    any(target_arch = "x86", target_arch = "x86_64", target_arch = "arm", target_arch = "aarch64")
)))]
mod unaccelerated;

#[cfg(all(
    feature = "accelerated",
    target_endian = "little",
    any(target_arch = "x86", target_arch = "x86_64", target_arch = "arm", target_arch = "aarch64")
))]
pub use self::accelerated::{Accelerated, Aes256Gcm, Best};
#[cfg(not(all(
    feature = "accelerated",
    target_endian = "little",
    any(target_arch = "x86", target_arch = "x86_64", target_arch = "arm", target_arch = "aarch64")
)))]
pub use self::unaccelerated::{Aes256Gcm, Best};
pub use self::{
    cipher::{Cipher, Unauthentic},
    key::Key,
    portable::Portable,
    seal::{MAX_RECORDS, OpenError, Opener, RECORDS_PER_KEY, SealError, Sealer},
    suite::{Chosen, Suite, Suites},
};

use crate::error::ProtocolError;

/// The length of a record's header.
pub const HEADER: usize = 4;

/// The length of the tag at the end of a Sealed record's body.
pub const TAG: usize = 16;

/// The most bytes that a record's body may have: what its three length bytes can say.
pub const MAX_BODY: usize = (1 << 24) - 1;

/// A writer starts a new record once the body has reached this many bytes, so that a batch's first frames can be
/// handled before its last have arrived.
pub const TARGET_BODY: usize = 16 * 1024;

/// What a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RecordKind {
    /// The first record of the side that connects.
    Hello,
    /// The first record of the side that accepts.
    HelloReply,
    /// Frames in the clear.
    Plain,
    /// Encrypted frames.
    Sealed,
    /// Why the handshake is refused. Nothing comes after it.
    Abort,
}

impl RecordKind {
    pub(crate) const fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => RecordKind::Hello,
            2 => RecordKind::HelloReply,
            3 => RecordKind::Plain,
            4 => RecordKind::Sealed,
            5 => RecordKind::Abort,
            _ => return None,
        })
    }

    const fn byte(self) -> u8 {
        match self {
            RecordKind::Hello => 1,
            RecordKind::HelloReply => 2,
            RecordKind::Plain => 3,
            RecordKind::Sealed => 4,
            RecordKind::Abort => 5,
        }
    }

    /// Its name in messages.
    pub const fn name(self) -> &'static str {
        match self {
            RecordKind::Hello => "Hello",
            RecordKind::HelloReply => "HelloReply",
            RecordKind::Plain => "Plain",
            RecordKind::Sealed => "Sealed",
            RecordKind::Abort => "Abort",
        }
    }
}

/// The header of a record with a body of `len` bytes, which must not exceed [`MAX_BODY`].
#[inline]
pub const fn header(kind: RecordKind, len: usize) -> [u8; HEADER] {
    debug_assert!(len <= MAX_BODY);
    let [a, b, c, _] = (len as u32).to_le_bytes();
    [kind.byte(), a, b, c]
}

/// Reads a header: the kind, and the length of the body.
///
/// # Errors
/// [`ProtocolError::UnknownRecord`] if the kind is none.
#[inline]
pub const fn parse(header: [u8; HEADER]) -> Result<(RecordKind, usize), ProtocolError> {
    let [kind, a, b, c] = header;
    match RecordKind::from_byte(kind) {
        Some(kind) => Ok((kind, u32::from_le_bytes([a, b, c, 0]) as usize)),
        None => Err(ProtocolError::UnknownRecord { found: kind }),
    }
}

/// A whole record: header and body.
pub fn build(kind: RecordKind, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER + body.len());
    out.extend_from_slice(&header(kind, body.len()));
    out.extend_from_slice(body);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_round_trip() {
        for kind in [
            RecordKind::Hello,
            RecordKind::HelloReply,
            RecordKind::Plain,
            RecordKind::Sealed,
            RecordKind::Abort,
        ] {
            for len in [0, 1, 255, 256, 65_536, MAX_BODY] {
                assert_eq!(parse(header(kind, len)), Ok((kind, len)));
            }
        }
        assert_eq!(parse(*b"GET "), Err(ProtocolError::UnknownRecord { found: b'G' }));
    }
}
