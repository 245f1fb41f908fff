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
        #[cfg(test)]
        if let Some(ephemeral) = super::golden::next_ephemeral() {
            dest.copy_from_slice(&ephemeral);
            return Ok(());
        }
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

#[cfg(test)]
mod tests {
    use snow::types::{Dh, Hash};

    use super::*;

    /// RFC 7748, section 5.2. The second point has its top bit set, which must be ignored.
    #[test]
    fn rfc_7748_single_exchanges() {
        for (private, public, shared) in [
            (
                "a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4",
                "e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c",
                "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552",
            ),
            (
                "4b66e9d4d1b4673c5ad22691957d6af5c11b6421e0ea01d42ca4169e7918ba0d",
                "e5210f12786811d3f4b7959d0538ae2c31dbe7106fc03c3efc4cd549c715a493",
                "95cbde9476e8907d7aade45cb4b873f88b595a68799fa152e6f8f7647aac7957",
            ),
        ] {
            assert_eq!(exchange(&unhex(private), &unhex(public)), unhex(shared));
        }
    }

    /// RFC 7748, section 5.2.
    #[test]
    fn rfc_7748_repeated_exchanges() {
        let mut private = [0; 32];
        private[0] = 9;
        let mut public = private;
        for round in 1..=1_000 {
            let shared = exchange(&private, &public);
            public = private;
            private = shared;
            if round == 1 {
                let expected = unhex("422c8e7a6227d7bca1350b3e2bb7279f7897b87bb6854b783c60e80311ae3079");
                assert_eq!(private, expected);
            }
        }
        assert_eq!(private, unhex("684cf59ba83309552800ef566f2f4d3c1c3887c49360e3875f2eb94d99532c51"));
    }

    /// RFC 7748, section 6.1.
    #[test]
    fn rfc_7748_key_pairs() {
        let alice = unhex("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a");
        let bob = unhex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb");
        let mut pair = dh();
        pair.set(&alice);
        assert_eq!(pair.pubkey(), unhex("8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a"));
        assert_eq!(pair.privkey(), alice);
        let alice_public = *pair.pubkey().first_chunk::<32>().unwrap();
        pair.set(&bob);
        assert_eq!(pair.pubkey(), unhex("de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f"));
        let shared = unhex("4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742");
        assert_eq!(exchange(&alice, pair.pubkey()), shared);
        assert_eq!(exchange(&bob, &alice_public), shared);
    }

    #[test]
    fn a_known_public_half_is_used_for_its_own_private_half_only() {
        let known = Resolver::with_own(&[1; 32], &[2; 32]);
        let mut pair = known.resolve_dh(&DHChoice::Curve25519).unwrap();
        pair.set(&[1; 32]);
        assert_eq!(pair.pubkey(), [2; 32]);
        pair.set(&[3; 32]);
        assert_eq!(pair.pubkey(), PublicKey::from(&StaticSecret::from([3; 32])).as_bytes());
    }

    #[test]
    fn generated_keys_differ() {
        let mut rng = Resolver::default().resolve_rng().unwrap();
        let (mut one, mut other) = (dh(), dh());
        one.generate(&mut *rng).unwrap();
        other.generate(&mut *rng).unwrap();
        assert_ne!(one.privkey(), other.privkey());
        assert_eq!(one.pubkey(), PublicKey::from(&one.pair.private).as_bytes());
    }

    /// RFC 7693, appendix B.
    #[test]
    fn rfc_7693_abc() {
        let mut hash = Blake2s(Blake2s256::new());
        hash.input(b"not this");
        hash.reset();
        hash.input(b"a");
        hash.input(b"bc");
        let mut out = [0; 64];
        hash.result(&mut out);
        assert_eq!(out[..32], unhex("508c5e8c327c14e2e1a72ba34eeb452f37458b209ed63a294d999b4c86675982"));
        assert_eq!(out[32..], [0; 32]);
    }

    /// The state machine comes with HMAC and HKDF of its own, which ours replace.
    #[test]
    fn derivations_are_those_of_the_library() {
        let (mut ours, mut theirs) = (Blake2s(Blake2s256::new()), Inherited(Blake2s(Blake2s256::new())));
        for key_len in [0, 1, 32, 63, 64] {
            let key: Vec<u8> = (0..key_len).collect();
            for data_len in [0, 1, 32, 200] {
                let data = vec![0xd5; data_len];
                let (mut one, mut other) = ([0; 64], [0; 64]);
                ours.hmac(&key, &data, &mut one);
                theirs.hmac(&key, &data, &mut other);
                assert_eq!(one, other);
                let half = data_len / 2;
                assert_eq!(*hmac(&key, &[&data[..half], &data[half..]]), one[..32]);
                for outputs in 1..=3 {
                    let (mut one, mut other) = ([[0; 64]; 3], [[0; 64]; 3]);
                    let [a, b, c] = &mut one;
                    ours.hkdf(&key, &data, outputs, a, b, c);
                    let [a, b, c] = &mut other;
                    theirs.hkdf(&key, &data, outputs, a, b, c);
                    assert_eq!(one, other);
                }
            }
        }
    }

    struct Inherited(Blake2s);

    impl Hash for Inherited {
        fn name(&self) -> &'static str {
            self.0.name()
        }

        fn block_len(&self) -> usize {
            self.0.block_len()
        }

        fn hash_len(&self) -> usize {
            self.0.hash_len()
        }

        fn reset(&mut self) {
            self.0.reset();
        }

        fn input(&mut self, data: &[u8]) {
            self.0.input(data);
        }

        fn result(&mut self, out: &mut [u8]) {
            self.0.result(out);
        }
    }

    fn dh() -> X25519 {
        X25519 { pair: Pair::none(), own: None }
    }

    fn exchange(private: &[u8], public: &[u8]) -> [u8; 32] {
        let mut pair = dh();
        pair.set(private);
        let mut shared = [0; 32];
        pair.dh(public, &mut shared).unwrap();
        shared
    }

    fn unhex(hex: &str) -> [u8; 32] {
        std::array::from_fn(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap())
    }
}
