//! Secrets of 32 bytes.

use std::fmt;

use subtle::{Choice, ConstantTimeEq};
use zeroize::{Zeroize, ZeroizeOnDrop};

/// A symmetric key. Wiped when it is dropped, compared in constant time, and never printed.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct Key([u8; Key::LEN]);

impl Key {
    /// Its length in bytes.
    pub const LEN: usize = 32;

    /// The key of these bytes.
    pub const fn new(bytes: [u8; Key::LEN]) -> Self {
        Self(bytes)
    }

    /// Its bytes. Keep them out of whatever is printed, logged or sent.
    pub const fn as_bytes(&self) -> &[u8; Key::LEN] {
        &self.0
    }
}

impl ConstantTimeEq for Key {
    fn ct_eq(&self, other: &Self) -> Choice {
        self.0.ct_eq(&other.0)
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.ct_eq(other).into()
    }
}

impl Eq for Key {}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}
