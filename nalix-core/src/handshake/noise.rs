//! The Noise Protocol Framework, revision 34, with the patterns that a secured connection uses.
//!
//! Two messages, one each way, and each side has the same keys. Everything is `25519_ChaChaPoly_BLAKE2s`.
//!
//! What is wiped: private keys, ephemeral keys, the secret of a resumption, what the key derivation leaves between, and the
//! keys that come out. What is not: the state machine's chaining key, and its copies on the stack, which the library drops as
//! they are.

use std::{fmt, hint::black_box};

use snow::{Builder, HandshakeState};
use thiserror::Error;
use zeroize::{Zeroize, Zeroizing};

use super::resolver::{self, Resolver};
use crate::record::{Key, TAG};

/// The longest message, in bytes (section 3 of the framework).
pub(crate) const MAX_MESSAGE: usize = 65_535;

/// What goes into the derivation of the resumption secret in front of the handshake's hash.
const RESUMPTION: &[u8] = b"nalix resumption v1";

/// Who proves what to whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pattern {
    /// The responder proves its static key, which the initiator knows.
    Nk,
    /// Both prove their static keys; the initiator knows the responder's.
    Ik,
    /// Both prove that they know a secret of before.
    NnPsk0,
}

impl Pattern {
    /// Its name in the framework's form (section 8).
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Pattern::Nk => "Noise_NK_25519_ChaChaPoly_BLAKE2s",
            Pattern::Ik => "Noise_IK_25519_ChaChaPoly_BLAKE2s",
            Pattern::NnPsk0 => "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s",
        }
    }

    /// How much longer than its payload the initiator's message is, in bytes.
    pub(crate) const fn first_overhead(self) -> usize {
        match self {
            Pattern::Nk | Pattern::NnPsk0 => 32 + TAG,
            Pattern::Ik => 32 + 32 + TAG + TAG,
        }
    }

    /// How much longer than its payload the responder's message is, in bytes.
    pub(crate) const fn second_overhead(self) -> usize {
        32 + TAG
    }
}

/// Our own static key pair. The halves must belong together.
#[derive(Clone, Copy)]
pub(crate) struct Own<'a> {
    pub(crate) private: &'a [u8; 32],
    pub(crate) public: &'a [u8; 32],
}

/// One side of a handshake under way.
///
/// The initiator writes and then reads, the responder reads and then writes; then [`Noise::finish`]. After an error other than
/// [`NoiseError::TooLong`] nothing works any more.
pub(crate) struct Noise {
    pattern: Pattern,
    /// None after a failure.
    state: Option<Machine>,
}

impl fmt::Debug for Noise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Noise").field("pattern", &self.pattern).finish_non_exhaustive()
    }
}

impl Noise {
    /// Starts a connection to the server with this key.
    pub(crate) fn initiator_nk(prologue: &[u8], server: &[u8; 32]) -> Result<Self, NoiseError> {
        let builder = builder(Pattern::Nk, prologue, Resolver::default())?.remote_public_key(server)?;
        Ok(Self::new(Pattern::Nk, builder.build_initiator()?))
    }

    /// Starts a connection to the server with this key, as the owner of `own`.
    pub(crate) fn initiator_ik(prologue: &[u8], own: Own<'_>, server: &[u8; 32]) -> Result<Self, NoiseError> {
        let builder = own_builder(Pattern::Ik, prologue, own)?.remote_public_key(server)?;
        Ok(Self::new(Pattern::Ik, builder.build_initiator()?))
    }

    /// Starts a connection that takes up the session with this secret.
    pub(crate) fn initiator_resume(prologue: &[u8], secret: &Key) -> Result<Self, NoiseError> {
        let builder = builder(Pattern::NnPsk0, prologue, Resolver::default())?.psk(0, secret.as_bytes())?;
        Ok(Self::new(Pattern::NnPsk0, builder.build_initiator()?))
    }

    /// Answers [`Noise::initiator_nk`].
    pub(crate) fn responder_nk(prologue: &[u8], own: Own<'_>) -> Result<Self, NoiseError> {
        Ok(Self::new(Pattern::Nk, own_builder(Pattern::Nk, prologue, own)?.build_responder()?))
    }

    /// Answers [`Noise::initiator_ik`].
    pub(crate) fn responder_ik(prologue: &[u8], own: Own<'_>) -> Result<Self, NoiseError> {
        Ok(Self::new(Pattern::Ik, own_builder(Pattern::Ik, prologue, own)?.build_responder()?))
    }

    /// Answers [`Noise::initiator_resume`].
    pub(crate) fn responder_resume(prologue: &[u8], secret: &Key) -> Result<Self, NoiseError> {
        let builder = builder(Pattern::NnPsk0, prologue, Resolver::default())?.psk(0, secret.as_bytes())?;
        Ok(Self::new(Pattern::NnPsk0, builder.build_responder()?))
    }

    fn new(pattern: Pattern, state: HandshakeState) -> Self {
        Self { pattern, state: Some(Machine(Box::new(state))) }
    }

    /// Writes this side's message around `payload`.
    pub(crate) fn write(&mut self, payload: &[u8]) -> Result<Vec<u8>, NoiseError> {
        let mut state = self.state.take().ok_or(NoiseError::Unverified)?;
        let overhead = if state.0.is_initiator() {
            self.pattern.first_overhead()
        } else {
            self.pattern.second_overhead()
        };
        if payload.len() > MAX_MESSAGE - overhead {
            self.state = Some(state);
            return Err(NoiseError::TooLong);
        }
        let mut message = vec![0; payload.len() + overhead];
        let written = state.0.write_message(payload, &mut message)?;
        message.truncate(written);
        self.state = Some(state);
        Ok(message)
    }

    /// Reads the other side's message and returns its payload.
    ///
    /// What the first message of a handshake brings can be a repetition of an old one, except in a resumption with a secret that
    /// is used once: the initiator has proven that it is there only when its first sealed record has opened.
    pub(crate) fn read(&mut self, message: &[u8]) -> Result<Vec<u8>, NoiseError> {
        let mut state = self.state.take().ok_or(NoiseError::Unverified)?;
        let mut payload = vec![0; message.len()];
        let read = state.0.read_message(message, &mut payload)?;
        payload.truncate(read);
        self.state = Some(state);
        Ok(payload)
    }

    /// The other side's static key, once it is known.
    pub(crate) fn remote_static(&self) -> Option<[u8; 32]> {
        self.state.as_ref()?.0.get_remote_static()?.first_chunk().copied()
    }

    /// The keys, once both messages have been exchanged.
    pub(crate) fn finish(mut self) -> Result<Keys, NoiseError> {
        let mut state = self.state.take().ok_or(NoiseError::Unverified)?;
        if !state.0.is_handshake_finished() {
            return Err(NoiseError::Unverified);
        }
        let (mut there, mut back) = state.0.dangerously_get_raw_split();
        let mut both = Zeroizing::new([0; 2 * Key::LEN]);
        both[..Key::LEN].copy_from_slice(&there);
        both[Key::LEN..].copy_from_slice(&back);
        let resumption = resolver::hmac(both.as_slice(), &[RESUMPTION, state.0.get_handshake_hash()]);
        let (first, second) = (Key::new(there), Key::new(back));
        there.zeroize();
        back.zeroize();
        let (send, recv) = if state.0.is_initiator() { (first, second) } else { (second, first) };
        Ok(Keys { send, recv, resumption: Key::new(*resumption) })
    }
}

/// The library's state machine, on the heap, so that moving it about leaves no copies.
struct Machine(Box<HandshakeState>);

impl Drop for Machine {
    /// Overwrites the secret of a resumption. It does no harm to the other patterns, which have none.
    fn drop(&mut self) {
        let _ = self.0.set_psk(0, &[0; Key::LEN]);
        black_box(&self.0);
    }
}

/// What a handshake leaves behind.
#[derive(Debug)]
pub(crate) struct Keys {
    /// For what this side sends.
    pub(crate) send: Key,
    /// For what the other side sends.
    pub(crate) recv: Key,
    /// The same on both sides: HMAC-BLAKE2s, keyed with the initiator's sending key and then the responder's, of
    /// `nalix resumption v1` and the handshake's hash.
    pub(crate) resumption: Key,
}

/// Why a handshake goes no further. What the peer did wrong is not said: all of it looks the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum NoiseError {
    /// The other side does not have the keys that it should have, or what it sent was changed; or a step is out of turn.
    #[error("the handshake did not verify")]
    Unverified,
    /// Our payload does not fit into a message. Nothing has changed.
    #[error("the payload does not fit into a handshake message of {MAX_MESSAGE} bytes")]
    TooLong,
    /// The operating system has no randomness for us.
    #[error("the operating system gave no randomness")]
    NoRandomness,
}

impl From<snow::Error> for NoiseError {
    fn from(error: snow::Error) -> Self {
        match error {
            snow::Error::Rng => NoiseError::NoRandomness,
            _ => NoiseError::Unverified,
        }
    }
}

fn builder<'a>(pattern: Pattern, prologue: &'a [u8], resolver: Resolver) -> Result<Builder<'a>, snow::Error> {
    Builder::with_resolver(pattern.name().parse()?, Box::new(resolver)).prologue(prologue)
}

fn own_builder<'a>(pattern: Pattern, prologue: &'a [u8], own: Own<'a>) -> Result<Builder<'a>, snow::Error> {
    builder(pattern, prologue, Resolver::with_own(own.private, own.public))?.local_private_key(own.private)
}

#[cfg(test)]
mod tests;
