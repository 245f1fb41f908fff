//! AES-256-GCM, on processors that have instructions for it.

use std::{fmt, hint::black_box};

use ring::aead::{AES_256_GCM, LessSafeKey, UnboundKey};

use crate::record::{
    Key, TAG,
    cipher::{Cipher, NONCE, Unauthentic},
};

/// AES-256-GCM (NIST SP 800-38D) of the `ring` crate.
///
/// Its key schedule takes longer to compute than a small record takes to seal, so it is kept, on the heap. `ring` does not
/// wipe it; here it is overwritten with another one when it is dropped. What making it has left on the stack is not.
pub struct Aes256Gcm(Box<LessSafeKey>);

impl Aes256Gcm {
    /// Whether this processor has instructions for AES and for GCM's multiplication. Without them it would be several
    /// times slower than ChaCha20-Poly1305, and would take different times for different data.
    pub fn is_fast_here() -> bool {
        #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
        let fast = is_x86_feature_detected!("aes") && is_x86_feature_detected!("pclmulqdq");
        #[cfg(target_arch = "aarch64")]
        let fast = std::arch::is_aarch64_feature_detected!("aes");
        #[cfg(target_arch = "arm")]
        let fast = false;
        fast
    }

    /// Takes a key into use.
    pub(in crate::record) fn with(key: &Key) -> Option<Self> {
        Some(Self::new(key))
    }
}

fn schedule(key: &[u8; Key::LEN]) -> LessSafeKey {
    let key = UnboundKey::new(&AES_256_GCM, key).unwrap_or_else(|_| unreachable!("a key has 32 bytes"));
    LessSafeKey::new(key)
}

impl Cipher for Aes256Gcm {
    fn new(key: &Key) -> Self {
        Self(Box::new(schedule(key.as_bytes())))
    }

    #[inline]
    fn encrypt(&self, nonce: [u8; NONCE], ad: &[u8], data: &mut [u8]) -> [u8; TAG] {
        super::encrypt(&self.0, nonce, ad, data)
    }

    #[inline]
    fn decrypt(
        &self,
        nonce: [u8; NONCE],
        ad: &[u8],
        data: &mut [u8],
        tag: &[u8; TAG],
    ) -> Result<(), Unauthentic> {
        super::decrypt(&self.0, nonce, ad, data, tag)
    }
}

impl Drop for Aes256Gcm {
    fn drop(&mut self) {
        *self.0 = schedule(&[0; Key::LEN]);
        black_box(&self.0);
    }
}

impl fmt::Debug for Aes256Gcm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Aes256Gcm(..)")
    }
}
