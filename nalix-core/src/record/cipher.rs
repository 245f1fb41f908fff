//! ChaCha20-Poly1305 (RFC 8439) behind one trait, so that two implementations can be held against each other.

use thiserror::Error;
use zeroize::Zeroize;

use super::{Key, TAG};

/// The cipher that this build uses: [`Accelerated`](super::Accelerated) with the feature `accelerated` on a processor that
/// it has code for, else [`Portable`](super::Portable). Both produce the same bytes.
#[cfg(all(
    feature = "accelerated",
    target_endian = "little",
    any(target_arch = "x86", target_arch = "x86_64", target_arch = "arm", target_arch = "aarch64")
))]
pub type Best = super::Accelerated;

/// The cipher that this build uses: [`Portable`](super::Portable).
#[cfg(not(all(
    feature = "accelerated",
    target_endian = "little",
    any(target_arch = "x86", target_arch = "x86_64", target_arch = "arm", target_arch = "aarch64")
)))]
pub type Best = super::Portable;

/// A key of ChaCha20-Poly1305 (RFC 8439, section 2.8), ready for use.
///
/// The nonce is four zero bytes and the counter in eight bytes, little-endian, as in the Noise Protocol Framework
/// (section 12.3). A counter must not seal twice under one key: whoever has both records can then forge others and read
/// what they differ in.
pub trait Cipher: Send + Sync + Sized {
    /// Takes a key into use.
    fn new(key: &Key) -> Self;

    /// Encrypts `data` in place and returns the tag, which covers `ad` as well.
    fn seal(&self, counter: u64, ad: &[u8], data: &mut [u8]) -> [u8; TAG];

    /// Verifies `data` and `ad` against the tag and decrypts `data` in place.
    ///
    /// # Errors
    /// [`Unauthentic`] if the tag does not fit. What `data` then holds is not specified and must not be used.
    fn open(&self, counter: u64, ad: &[u8], data: &mut [u8], tag: &[u8; TAG]) -> Result<(), Unauthentic>;

    /// The key that follows this one: `REKEY(k)` of the Noise Protocol Framework (section 4.2). This one cannot be
    /// computed from it. It takes the counter 2^64 - 1, which must not be used for anything else.
    fn next_key(&self) -> Key {
        let mut bytes = [0; Key::LEN];
        self.seal(u64::MAX, &[], &mut bytes);
        let key = Key::new(bytes);
        bytes.zeroize();
        key
    }
}

/// A tag does not fit: another key, counter, header or content than was sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a sealed record did not open")]
pub struct Unauthentic;

/// The nonce of a counter.
#[inline]
pub(super) fn nonce(counter: u64) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&counter.to_le_bytes());
    nonce
}
