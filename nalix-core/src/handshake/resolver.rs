//! The primitives that Noise runs on here: X25519, ChaCha20-Poly1305, BLAKE2s, and randomness of the operating system.

use blake2::{Blake2s256, Digest};
use snow::{
    Error,
    params::{CipherChoice, DHChoice, HashChoice},
    resolvers::CryptoResolver,
    types,
};
use subtle::ConstantTimeEq;
use x25519_dalek::{PublicKey, StaticSecret};
use zeroize::Zeroizing;

use crate::record::{Best, Cipher, Key, TAG};

/// The output of BLAKE2s, and of HMAC with it, in bytes.
const HASH: usize = 32;

/// The block of BLAKE2s, in bytes.
const BLOCK: usize = 64;

/// Hands out the primitives.
#[derive(Default)]
pub(super) struct Resolver {
    own: Option<Pair>,
}

impl Resolver {
    /// Knows our own static key pair, so that its public half is not computed for each handshake.
    pub(super) fn with_own(private: &[u8; 32], public: &[u8; 32]) -> Self {
        Self { own: Some(Pair { private: StaticSecret::from(*private), public: *public }) }
    }
}

impl CryptoResolver for Resolver {
    fn resolve_rng(&self) -> Option<Box<dyn types::Random>> {
        Some(Box::new(SystemRandom))
    }

    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn types::Dh>> {
        match choice {
            DHChoice::Curve25519 => Some(Box::new(X25519 { pair: Pair::none(), own: self.own.clone() })),
            _ => None,
        }
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn types::Hash>> {
        match choice {
            HashChoice::Blake2s => Some(Box::new(Blake2s(Blake2s256::new()))),
            _ => None,
        }
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn types::Cipher>> {
        match choice {
            CipherChoice::ChaChaPoly => Some(Box::new(ChaChaPoly(None))),
            _ => None,
        }
    }
}

/// HMAC (RFC 2104) with BLAKE2s over `parts` as if they were one. The key has at most 64 bytes.
pub(super) fn hmac(key: &[u8], parts: &[&[u8]]) -> Zeroizing<[u8; HASH]> {
    let mut pad = Zeroizing::new([0; BLOCK]);
    pad[..key.len()].copy_from_slice(key);
    pad.iter_mut().for_each(|byte| *byte ^= 0x36);
    let mut inner = Blake2s256::new_with_prefix(pad.as_slice());
    for part in parts {
        inner.update(part);
    }
    let mut digest = Zeroizing::new([0; HASH]);
    inner.finalize_into((&mut *digest).into());
    pad.iter_mut().for_each(|byte| *byte ^= 0x36 ^ 0x5c);
    let mut outer = Blake2s256::new_with_prefix(pad.as_slice());
    outer.update(digest.as_slice());
    outer.finalize_into((&mut *digest).into());
    digest
}

struct SystemRandom;

impl types::Random for SystemRandom {
    fn try_fill_bytes(&mut self, dest: &mut [u8]) -> Result<(), Error> {
        getrandom::fill(dest).map_err(|_| Error::Rng)
    }
}

/// X25519 (RFC 7748). The private half is wiped when it is dropped.
struct X25519 {
    pair: Pair,
    own: Option<Pair>,
}

#[derive(Clone)]
struct Pair {
    private: StaticSecret,
    public: [u8; 32],
}

impl Pair {
    fn none() -> Self {
        Self { private: StaticSecret::from([0; 32]), public: [0; 32] }
    }

    fn new(private: StaticSecret) -> Self {
        let public = PublicKey::from(&private).to_bytes();
        Self { private, public }
    }
}

impl types::Dh for X25519 {
    fn name(&self) -> &'static str {
        "25519"
    }

    fn pub_len(&self) -> usize {
        32
    }

    fn priv_len(&self) -> usize {
        32
    }

    fn set(&mut self, private: &[u8]) {
        self.pair = match &self.own {
            Some(own) if own.private.as_bytes().ct_eq(private).into() => own.clone(),
            _ => {
                let mut bytes = Zeroizing::new([0; 32]);
                bytes.copy_from_slice(private);
                Pair::new(StaticSecret::from(*bytes))
            }
        };
    }

    fn generate(&mut self, rng: &mut dyn types::Random) -> Result<(), Error> {
        let mut bytes = Zeroizing::new([0; 32]);
        rng.try_fill_bytes(bytes.as_mut_slice())?;
        self.pair = Pair::new(StaticSecret::from(*bytes));
        Ok(())
    }

    fn pubkey(&self) -> &[u8] {
        &self.pair.public
    }

    fn privkey(&self) -> &[u8] {
        self.pair.private.as_bytes()
    }

    /// Refuses points of low order (RFC 7748, section 6.1): whoever sends one knows the result whatever our key is.
    fn dh(&self, public: &[u8], out: &mut [u8]) -> Result<(), Error> {
        let public = *public.first_chunk::<32>().ok_or(Error::Dh)?;
        let shared = self.pair.private.diffie_hellman(&PublicKey::from(public));
        if !shared.was_contributory() {
            return Err(Error::Dh);
        }
        out[..32].copy_from_slice(shared.as_bytes());
        Ok(())
    }
}

/// The cipher of the handshake's own messages. It has no key at first.
struct ChaChaPoly(Option<Best>);

impl types::Cipher for ChaChaPoly {
    fn name(&self) -> &'static str {
        "ChaChaPoly"
    }

    fn set(&mut self, key: &[u8; Key::LEN]) {
        self.0 = Some(Best::new(&Key::new(*key)));
    }

    fn encrypt(&self, nonce: u64, ad: &[u8], plain: &[u8], out: &mut [u8]) -> usize {
        let cipher =
            self.0.as_ref().unwrap_or_else(|| unreachable!("nothing is encrypted before there is a key"));
        let (data, rest) = out.split_at_mut(plain.len());
        data.copy_from_slice(plain);
        rest[..TAG].copy_from_slice(&cipher.seal(nonce, ad, data));
        plain.len() + TAG
    }

    fn decrypt(&self, nonce: u64, ad: &[u8], sealed: &[u8], out: &mut [u8]) -> Result<usize, Error> {
        let cipher = self.0.as_ref().ok_or(Error::Decrypt)?;
        let (data, tag) = sealed.split_last_chunk::<TAG>().ok_or(Error::Decrypt)?;
        let out = out.get_mut(..data.len()).ok_or(Error::Decrypt)?;
        out.copy_from_slice(data);
        cipher.open(nonce, ad, out, tag).map_err(|_| Error::Decrypt)?;
        Ok(data.len())
    }
}

/// BLAKE2s (RFC 7693). HMAC and HKDF are written here and not taken from the trait, so that what is between is wiped.
struct Blake2s(Blake2s256);

impl types::Hash for Blake2s {
    fn name(&self) -> &'static str {
        "BLAKE2s"
    }

    fn block_len(&self) -> usize {
        BLOCK
    }

    fn hash_len(&self) -> usize {
        HASH
    }

    fn reset(&mut self) {
        self.0 = Blake2s256::new();
    }

    fn input(&mut self, data: &[u8]) {
        self.0.update(data);
    }

    fn result(&mut self, out: &mut [u8]) {
        let hash = std::mem::take(&mut self.0).finalize();
        out[..HASH].copy_from_slice(&hash);
    }

    fn hmac(&mut self, key: &[u8], data: &[u8], out: &mut [u8]) {
        out[..HASH].copy_from_slice(hmac(key, &[data]).as_slice());
    }

    /// HKDF of the Noise Protocol Framework, section 4.3.
    fn hkdf(
        &mut self,
        chaining_key: &[u8],
        input: &[u8],
        outputs: usize,
        out1: &mut [u8],
        out2: &mut [u8],
        out3: &mut [u8],
    ) {
        let key = hmac(chaining_key, &[input]);
        let mut before: &[u8] = &[];
        for (n, out) in (1..).zip([out1, out2, out3].into_iter().take(outputs)) {
            out[..HASH].copy_from_slice(hmac(key.as_slice(), &[before, &[n]]).as_slice());
            before = &out[..HASH];
        }
    }
}
