//! Ciphers with code for the processor at hand.

mod aes;
mod chacha;

use ring::aead::{Aad, LessSafeKey, Nonce, Tag};

pub use self::{aes::Aes256Gcm, chacha::Accelerated};
use super::{
    TAG,
    cipher::{NONCE, Unauthentic},
};

/// The ChaCha20-Poly1305 that this build uses: [`Accelerated`], since the feature `accelerated` is on and this is a processor
/// that there is code for. [`Portable`](super::Portable) produces the same bytes.
pub type Best = Accelerated;

/// [`Cipher::encrypt`](super::Cipher::encrypt) with a key of `ring`'s, of whichever cipher.
#[inline]
fn encrypt(key: &LessSafeKey, nonce: [u8; NONCE], ad: &[u8], data: &mut [u8]) -> [u8; TAG] {
    let tag = key
        .seal_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), Aad::from(ad), data)
        .unwrap_or_else(|_| unreachable!("a record is shorter than 64 GiB"));
    let mut out = [0; TAG];
    out.copy_from_slice(tag.as_ref());
    out
}

/// [`Cipher::decrypt`](super::Cipher::decrypt) with a key of `ring`'s, of whichever cipher.
#[inline]
fn decrypt(
    key: &LessSafeKey,
    nonce: [u8; NONCE],
    ad: &[u8],
    data: &mut [u8],
    tag: &[u8; TAG],
) -> Result<(), Unauthentic> {
    let nonce = Nonce::assume_unique_for_key(nonce);
    key.open_in_place_separate_tag(nonce, Aad::from(ad), Tag::from(*tag), data, 0..)
        .map(drop)
        .map_err(|_| Unauthentic)
}
