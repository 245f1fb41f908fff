//! Ciphers behind one trait, so that two implementations can be held against each other.

use thiserror::Error;
use zeroize::Zeroize;

use super::{Key, TAG};

/// The length of a nonce.
pub(super) const NONCE: usize = 12;

/// A key of an authenticated cipher with a nonce of 12 bytes and a tag of 16, ready for use: ChaCha20-Poly1305 (RFC 8439,
/// section 2.8) or AES-256-GCM (NIST SP 800-38D).
///
/// A nonce must not be used twice under one key: whoever has both records learns how they differ and can forge others.
pub trait Cipher: Send + Sync + Sized {
    /// Takes a key into use.
    fn new(key: &Key) -> Self;

    /// Encrypts `data` in place and returns the tag, which covers `ad` as well.
    fn encrypt(&self, nonce: [u8; NONCE], ad: &[u8], data: &mut [u8]) -> [u8; TAG];

    /// Verifies `data` and `ad` against the tag and decrypts `data` in place.
    ///
    /// # Errors
    /// [`Unauthentic`] if the tag does not fit. What `data` then holds is not specified and must not be used.
    fn decrypt(
        &self,
        nonce: [u8; NONCE],
        ad: &[u8],
        data: &mut [u8],
        tag: &[u8; TAG],
    ) -> Result<(), Unauthentic>;

    /// Encrypts record number `counter`: [`Cipher::encrypt`] with the nonce of the Noise Protocol Framework (section 12.3),
    /// four zero bytes and the counter in eight bytes, little-endian.
    #[inline]
    fn seal(&self, counter: u64, ad: &[u8], data: &mut [u8]) -> [u8; TAG] {
        self.encrypt(nonce(counter), ad, data)
    }

    /// Decrypts record number `counter`.
    ///
    /// # Errors
    /// Those of [`Cipher::decrypt`].
    #[inline]
    fn open(&self, counter: u64, ad: &[u8], data: &mut [u8], tag: &[u8; TAG]) -> Result<(), Unauthentic> {
        self.decrypt(nonce(counter), ad, data, tag)
    }

    /// The key that follows this one: `REKEY(k)` of the Noise Protocol Framework (section 4.2). This one cannot be
    /// computed from it. It takes the counter 2^64 - 1, which must not be used for anything else.
    fn next_key(&self) -> Key {
        let mut bytes = [0; Key::LEN];
        self.seal(u64::MAX, &[], &mut bytes);
        let key = Key::new(bytes);
        bytes.zeroize();
        key
    }

    /// The same cipher with the key that follows this one.
    fn renewed(&self) -> Self {
        Self::new(&self.next_key())
    }
}

/// A tag does not fit: another key, counter, header or content than was sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a sealed record did not open")]
pub struct Unauthentic;

/// The nonce of a counter.
#[inline]
fn nonce(counter: u64) -> [u8; NONCE] {
    let mut nonce = [0; NONCE];
    nonce[4..].copy_from_slice(&counter.to_le_bytes());
    nonce
}
