//! Which cipher seals the records of a connection: both sides choose the one that is fastest for both.

use std::fmt;

use super::{
    Aes256Gcm, Best, Key, TAG,
    cipher::{Cipher, NONCE, Unauthentic},
};

/// A cipher for sealed records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Suite {
    /// ChaCha20-Poly1305. Every peer has it.
    ChaCha20Poly1305,
    /// AES-256-GCM. Peers have it whose processors have instructions for it, which make it several times faster.
    Aes256Gcm,
}

impl Suite {
    pub(crate) const fn to_byte(self) -> u8 {
        match self {
            Suite::ChaCha20Poly1305 => 1,
            Suite::Aes256Gcm => 2,
        }
    }

    pub(crate) const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Suite::ChaCha20Poly1305),
            2 => Some(Suite::Aes256Gcm),
            _ => None,
        }
    }
}

/// A set of suites.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Suites(u8);

impl Suites {
    /// No suite: for a connection that is not secured.
    pub const NONE: Self = Self(0);

    /// The suite that every peer has, alone.
    pub const COMMON: Self = Self(Suite::ChaCha20Poly1305.to_byte());

    /// Those that are fast on this machine, in this build.
    pub fn here() -> Self {
        let aes = if Aes256Gcm::is_fast_here() { Suite::Aes256Gcm.to_byte() } else { 0 };
        Self(Self::COMMON.0 | aes)
    }

    /// Whether it holds this one.
    pub const fn contains(self, suite: Suite) -> bool {
        self.0 & suite.to_byte() != 0
    }

    /// The fastest of those that both sets hold.
    pub fn choose(self, theirs: Self) -> Option<Suite> {
        [Suite::Aes256Gcm, Suite::ChaCha20Poly1305]
            .into_iter()
            .find(|&suite| self.contains(suite) && theirs.contains(suite))
    }

    pub(crate) const fn to_byte(self) -> u8 {
        self.0
    }

    /// Suites of later versions are kept and never chosen.
    pub(crate) const fn from_byte(byte: u8) -> Self {
        Self(byte)
    }
}

/// The cipher that was chosen, with its key.
pub struct Chosen(Variant);

enum Variant {
    ChaCha(Best),
    Aes(Aes256Gcm),
}

impl Chosen {
    /// Takes a key into use. `None` if this build does not have the suite.
    pub fn with(suite: Suite, key: &Key) -> Option<Self> {
        Some(Self(match suite {
            Suite::ChaCha20Poly1305 => Variant::ChaCha(Best::new(key)),
            Suite::Aes256Gcm => Variant::Aes(Aes256Gcm::with(key)?),
        }))
    }

    /// Which suite it is.
    pub fn suite(&self) -> Suite {
        match self.0 {
            Variant::ChaCha(_) => Suite::ChaCha20Poly1305,
            Variant::Aes(_) => Suite::Aes256Gcm,
        }
    }
}

impl Cipher for Chosen {
    /// The suite that every peer has.
    fn new(key: &Key) -> Self {
        Self(Variant::ChaCha(Best::new(key)))
    }

    #[inline]
    fn encrypt(&self, nonce: [u8; NONCE], ad: &[u8], data: &mut [u8]) -> [u8; TAG] {
        match &self.0 {
            Variant::ChaCha(cipher) => cipher.encrypt(nonce, ad, data),
            Variant::Aes(cipher) => cipher.encrypt(nonce, ad, data),
        }
    }

    #[inline]
    fn decrypt(
        &self,
        nonce: [u8; NONCE],
        ad: &[u8],
        data: &mut [u8],
        tag: &[u8; TAG],
    ) -> Result<(), Unauthentic> {
        match &self.0 {
            Variant::ChaCha(cipher) => cipher.decrypt(nonce, ad, data, tag),
            Variant::Aes(cipher) => cipher.decrypt(nonce, ad, data, tag),
        }
    }

    fn renewed(&self) -> Self {
        Self(match &self.0 {
            Variant::ChaCha(cipher) => Variant::ChaCha(cipher.renewed()),
            Variant::Aes(cipher) => Variant::Aes(cipher.renewed()),
        })
    }
}

impl fmt::Debug for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Chosen({:?})", self.suite())
    }
}
