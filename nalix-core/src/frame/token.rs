//! What proves that a client is the one whose session goes on.

use std::fmt;

use subtle::ConstantTimeEq;
use zeroize::ZeroizeOnDrop;

/// A secret that the accepting side gives to the other with a session, and that must be shown to go on with it: 128 random
/// bits. Compared in constant time, wiped when dropped, and never printed.
#[derive(Clone, ZeroizeOnDrop)]
pub struct ResumeToken([u8; ResumeToken::LEN]);

impl ResumeToken {
    /// Its length in bytes.
    pub const LEN: usize = 16;

    /// The token of these bytes.
    pub const fn from_bytes(bytes: [u8; ResumeToken::LEN]) -> Self {
        Self(bytes)
    }

    /// Its bytes. Keep them out of logs.
    pub const fn as_bytes(&self) -> &[u8; ResumeToken::LEN] {
        &self.0
    }
}

impl PartialEq for ResumeToken {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for ResumeToken {}

impl fmt::Debug for ResumeToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResumeToken(..)")
    }
}
