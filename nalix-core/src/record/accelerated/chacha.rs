//! The cipher with code for the processor at hand.

use std::fmt;

use ring::aead::{CHACHA20_POLY1305, LessSafeKey, UnboundKey};

use crate::record::{
    Key, TAG,
    cipher::{Cipher, NONCE, Unauthentic},
};

/// ChaCha20-Poly1305 of the `ring` crate, in assembly. It needs a C compiler to build.
///
/// `ring` does not wipe its keys when they are dropped, and one takes 544 bytes. So this keeps the 32 bytes of the key, which
/// are wiped, and gives them to `ring` for each record anew, on the stack. What is left there is overwritten by the next
/// record, or by whatever else the thread calls, but not on purpose. It costs some 25 ns a record on x86-64.
pub struct Accelerated(Key);

impl Accelerated {
    #[inline]
    fn key(&self) -> LessSafeKey {
        let key = UnboundKey::new(&CHACHA20_POLY1305, self.0.as_bytes())
            .unwrap_or_else(|_| unreachable!("a key has 32 bytes"));
        LessSafeKey::new(key)
    }
}

impl Cipher for Accelerated {
    fn new(key: &Key) -> Self {
        Self(key.clone())
    }

    #[inline]
    fn encrypt(&self, nonce: [u8; NONCE], ad: &[u8], data: &mut [u8]) -> [u8; TAG] {
        super::encrypt(&self.key(), nonce, ad, data)
    }

    #[inline]
    fn decrypt(
        &self,
        nonce: [u8; NONCE],
        ad: &[u8],
        data: &mut [u8],
        tag: &[u8; TAG],
    ) -> Result<(), Unauthentic> {
        super::decrypt(&self.key(), nonce, ad, data, tag)
    }
}

impl fmt::Debug for Accelerated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Accelerated(..)")
    }
}
