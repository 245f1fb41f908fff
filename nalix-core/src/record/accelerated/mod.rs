//! Ciphers with code for the processor at hand.

mod aes;
mod chacha;

pub use self::{aes::Aes256Gcm, chacha::Accelerated};

/// The ChaCha20-Poly1305 that this build uses: [`Accelerated`], since the feature `accelerated` is on and this is a processor
/// that there is code for. [`Portable`](super::Portable) produces the same bytes.
pub type Best = Accelerated;
