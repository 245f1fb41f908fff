//! What a build does without code for the processor at hand.

use std::convert::Infallible;

use super::{
    Key, Portable, TAG,
    cipher::{Cipher, NONCE, Unauthentic},
};

/// The ChaCha20-Poly1305 that this build uses: [`Portable`].
pub type Best = Portable;

/// AES-256-GCM, which this build does not have.
#[derive(Debug)]
pub struct Aes256Gcm(Infallible);

impl Aes256Gcm {
    /// Never.
    pub fn is_fast_here() -> bool {
        false
    }

    /// Never.
    pub(super) fn with(_: &Key) -> Option<Self> {
        None
    }
}

/// Whatever it does, it is not there to do it.
impl Cipher for Aes256Gcm {
    fn new(_: &Key) -> Self {
        unreachable!("this build has no AES-256-GCM; `Chosen::with` is asked first")
    }

    fn encrypt(&self, _: [u8; NONCE], _: &[u8], _: &mut [u8]) -> [u8; TAG] {
        match self.0 {}
    }

    fn decrypt(&self, _: [u8; NONCE], _: &[u8], _: &mut [u8], _: &[u8; TAG]) -> Result<(), Unauthentic> {
        match self.0 {}
    }

    fn renewed(&self) -> Self {
        match self.0 {}
    }
}
