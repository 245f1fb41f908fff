//! The cipher for every target.

use std::fmt;

use chacha20poly1305::{ChaCha20Poly1305, KeyInit, aead::AeadInOut};

use super::{
    Key, TAG,
    cipher::{Cipher, NONCE, Unauthentic},
};

/// ChaCha20-Poly1305 of the `chacha20poly1305` crate: no assembly, no C, on every target.
///
/// On x86 its Poly1305 sets up tables for each record, which costs a microsecond and pays from some 3 KiB on. Whoever builds for
/// x86 without the feature `accelerated` and sends small records can turn that off for the whole program with
/// `RUSTFLAGS='--cfg poly1305_backend="soft"'`; a library cannot.
///
/// The key is wiped when it is dropped; so is the one-time key of each record, except for the state of Poly1305.
pub struct Portable(ChaCha20Poly1305);

impl Cipher for Portable {
    fn new(key: &Key) -> Self {
        Self(ChaCha20Poly1305::new(key.as_bytes().into()))
    }

    #[inline]
    fn encrypt(&self, nonce: [u8; NONCE], ad: &[u8], data: &mut [u8]) -> [u8; TAG] {
        self.0
            .encrypt_inout_detached(&nonce.into(), ad, data.into())
            .unwrap_or_else(|_| unreachable!("a record is shorter than 256 GiB"))
            .into()
    }

    #[inline]
    fn decrypt(
        &self,
        nonce: [u8; NONCE],
        ad: &[u8],
        data: &mut [u8],
        tag: &[u8; TAG],
    ) -> Result<(), Unauthentic> {
        self.0.decrypt_inout_detached(&nonce.into(), ad, data.into(), tag.into()).map_err(|_| Unauthentic)
    }
}

impl fmt::Debug for Portable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Portable(..)")
    }
}
