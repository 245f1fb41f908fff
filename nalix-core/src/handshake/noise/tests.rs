//! Handshakes against published vectors, against each other, and under attack.

use std::collections::HashMap;

use blake2::{Blake2s256, Digest};
use snow::{
    Error,
    params::{CipherChoice, DHChoice, HashChoice},
    resolvers::CryptoResolver,
    types,
};
use x25519_dalek::{PublicKey, StaticSecret, x25519};

use super::*;
use crate::record::{Best, Cipher, Opener, Sealer};

const PROLOGUE: &[u8] = b"what was said before";
const PATTERNS: [Pattern; 3] = [Pattern::Nk, Pattern::Ik, Pattern::NnPsk0];

#[test]
fn published_vectors() {
    let file = include_str!("../../../tests/vectors/noise.txt");
    let mut seen = Vec::new();
    for block in file.split("\nprotocol ").skip(1) {
        let (name, lines) = block.split_once('\n').unwrap();
        let pattern = PATTERNS.into_iter().find(|pattern| pattern.name() == name).unwrap();
        seen.push(pattern);
        published_vector(pattern, lines);
    }
    assert_eq!(seen, [Pattern::Nk, Pattern::Ik, Pattern::NnPsk0, Pattern::Nk, Pattern::Ik]);
}

fn published_vector(pattern: Pattern, lines: &str) {
    let mut values = HashMap::new();
    let mut messages = Vec::new();
    for (name, value) in lines.lines().filter_map(|line| line.split_once(' ')) {
        match (name, value.split_once(' ')) {
            ("message", Some((payload, message))) => messages.push((unhex(payload), unhex(message))),
            _ => assert!(values.insert(name, unhex(value)).is_none(), "{name} twice"),
        }
    }
    let key = |name: &str| values.get(name).map(|value| *value.first_chunk::<32>().unwrap());
    let [psk, init_static, resp_static] = ["psk", "init_static", "resp_static"].map(key);
    let [init_ephemeral, resp_ephemeral] = ["init_ephemeral", "resp_ephemeral"].map(|k| key(k).unwrap());
    let init_public = init_static.map(|private| public_of(&private));
    let resp_public = resp_static.map(|private| public_of(&private));
    assert_eq!(resp_public, key("init_remote_static"), "the halves of the responder's key");

    let side = |own: &Option<[u8; 32]>, public: &Option<[u8; 32]>| match (own, public) {
        (Some(private), Some(public)) => Resolver::with_own(private, public),
        _ => Resolver::default(),
    };
    let mut initiator = builder(pattern, &values["prologue"], side(&init_static, &init_public)).unwrap();
    let mut responder = builder(pattern, &values["prologue"], side(&resp_static, &resp_public)).unwrap();
    initiator = initiator.fixed_ephemeral_key_for_testing_only(&init_ephemeral);
    responder = responder.fixed_ephemeral_key_for_testing_only(&resp_ephemeral);
    if let Some(psk) = &psk {
        initiator = initiator.psk(0, psk).unwrap();
        responder = responder.psk(0, psk).unwrap();
    }
    if let Some(private) = &init_static {
        initiator = initiator.local_private_key(private).unwrap();
    }
    if let (Some(private), Some(public)) = (&resp_static, &resp_public) {
        responder = responder.local_private_key(private).unwrap();
        initiator = initiator.remote_public_key(public).unwrap();
    }
    let mut initiator = Noise::new(pattern, initiator.build_initiator().unwrap());
    let mut responder = Noise::new(pattern, responder.build_responder().unwrap());

    let (handshake, sealed) = messages.split_at(2);
    let (first, second) = (&handshake[0], &handshake[1]);
    assert_eq!(initiator.write(&first.0).unwrap(), first.1);
    assert_eq!(responder.read(&first.1).unwrap(), first.0);
    assert_eq!(responder.write(&second.0).unwrap(), second.1);
    assert_eq!(initiator.read(&second.1).unwrap(), second.0);
    assert_eq!(initiator.remote_static(), resp_public);
    assert_eq!(responder.remote_static(), init_public);

    let (there, back) = (initiator.finish().unwrap(), responder.finish().unwrap());
    assert_eq!((&there.send, &there.recv), (&back.recv, &back.send));
    for (n, (plain, message)) in sealed.iter().enumerate() {
        let key = if n % 2 == 0 { &there.send } else { &there.recv };
        let mut data = plain.clone();
        let tag = Best::new(key).seal(n as u64 / 2, &[], &mut data);
        assert_eq!([&data[..], &tag].concat(), *message, "sealed message {n}");
    }
    if let Some(hash) = values.get("handshake_hash") {
        let both = [*there.send.as_bytes(), *there.recv.as_bytes()].concat();
        let inner: Vec<u8> = both.iter().map(|byte| byte ^ 0x36).collect();
        let outer: Vec<u8> = both.iter().map(|byte| byte ^ 0x5c).collect();
        let inner = Blake2s256::digest([&inner, b"nalix resumption v1".as_slice(), hash].concat());
        let expected = Blake2s256::digest([&outer[..], &inner].concat());
        assert_eq!(there.resumption.as_bytes().as_slice(), expected.as_slice());
    }
    assert_eq!(there.resumption, back.resumption);
}

#[test]
fn both_sides_agree_and_each_direction_has_its_own_key() {
    for pattern in PATTERNS {
        let (mut initiator, mut responder) = Honest::new().pair(pattern);
        assert_eq!(responder.read(&initiator.write(b"one").unwrap()).unwrap(), b"one");
        assert_eq!(initiator.read(&responder.write(b"two").unwrap()).unwrap(), b"two");
        let (there, back) = (initiator.finish().unwrap(), responder.finish().unwrap());
        assert_eq!(there.send, back.recv, "{pattern:?}");
        assert_eq!(there.recv, back.send, "{pattern:?}");
        assert_eq!(there.resumption, back.resumption, "{pattern:?}");
        assert_ne!(there.send, there.recv, "{pattern:?}");
        assert_ne!(there.resumption, there.send, "{pattern:?}");
        assert_ne!(there.resumption, there.recv, "{pattern:?}");
        assert_eq!(format!("{there:?}"), "Keys { send: Key(..), recv: Key(..), resumption: Key(..) }");
    }
}

#[test]
fn a_record_played_back_to_its_sender_does_not_open() {
    let (mut initiator, mut responder) = Honest::new().pair(Pattern::Nk);
    responder.read(&initiator.write(&[]).unwrap()).unwrap();
    initiator.read(&responder.write(&[]).unwrap()).unwrap();
    let (there, back) = (initiator.finish().unwrap(), responder.finish().unwrap());
    let mut record = vec![0; 4];
    record.extend_from_slice(b"hello");
    Sealer::new(there.send).seal(&mut record, 0).unwrap();
    let (head, body) = record.split_first_chunk().unwrap();
    assert!(Opener::new(there.recv).open(*head, &mut body.to_vec()).is_err());
    assert_eq!(Opener::new(back.recv).open(*head, &mut body.to_vec()), Ok(5));
}

#[test]
fn handshakes_of_the_same_keys_share_nothing() {
    for pattern in PATTERNS {
        let honest = Honest::new();
        let [one, other] = [(), ()].map(|()| {
            let (mut initiator, mut responder) = honest.pair(pattern);
            responder.read(&initiator.write(&[]).unwrap()).unwrap();
            initiator.read(&responder.write(&[]).unwrap()).unwrap();
            initiator.finish().unwrap()
        });
        assert_ne!(one.send, other.send, "{pattern:?}");
        assert_ne!(one.recv, other.recv, "{pattern:?}");
        assert_ne!(one.resumption, other.resumption, "{pattern:?}");
    }
}

#[test]
fn a_changed_or_cut_message_is_refused_and_nothing_works_afterwards() {
    for pattern in PATTERNS {
        let honest = Honest::new();
        let (mut initiator, _) = honest.pair(pattern);
        let first = initiator.write(b"one").unwrap();
        for bad in spoilt(&first) {
            let mut responder = honest.pair(pattern).1;
            let refused = responder.read(&bad).map(drop).and_then(|()| responder.write(&[]).map(drop));
            assert_eq!(refused, Err(NoiseError::Unverified), "{pattern:?}");
            assert_eq!(responder.read(&first), Err(NoiseError::Unverified));
            assert_eq!(responder.remote_static(), None);
            assert_eq!(responder.finish().map(drop), Err(NoiseError::Unverified));
        }
        let (mut initiator, mut responder) = honest.pair(pattern);
        responder.read(&initiator.write(&[]).unwrap()).unwrap();
        let mut second = responder.write(b"two").unwrap();
        let last = second.len() - 1;
        second[last] ^= 1;
        assert_eq!(initiator.read(&second), Err(NoiseError::Unverified), "{pattern:?}");
        second[last] ^= 1;
        assert_eq!(initiator.read(&second), Err(NoiseError::Unverified), "{pattern:?}");
        assert_eq!(initiator.finish().map(drop), Err(NoiseError::Unverified));
    }
}

/// Cut in its parts and between them, one byte longer, and with one bit changed here and there.
fn spoilt(message: &[u8]) -> Vec<Vec<u8>> {
    let mut all: Vec<_> =
        [0, 15, 16, 31, 32, 48, message.len() - 1].map(|len| message[..len].to_vec()).into();
    all.push([message, &[0]].concat());
    // The top bit of an ephemeral key makes no difference to X25519, but it is hashed.
    for bit in [0, 77, 255, 256, 300, message.len() * 8 - 1] {
        let mut changed = message.to_vec();
        changed[bit / 8] ^= 1 << (bit % 8);
        all.push(changed);
    }
    all
}

#[test]
fn another_prologue_key_or_secret_is_refused_with_the_same_error() {
    for pattern in PATTERNS {
        let honest = Honest::new();
        let other = Honest { client: honest.client, ..Honest::new() };
        let mut responder = honest.pair(pattern).1;
        let first = other.pair(pattern).0.write(&[]).unwrap();
        assert_eq!(responder.read(&first), Err(NoiseError::Unverified), "{pattern:?}");

        let mut responder = honest.pair(pattern).1;
        let first = honest.initiator(pattern, b"another prologue").write(&[]).unwrap();
        assert_eq!(responder.read(&first), Err(NoiseError::Unverified), "{pattern:?}");
    }
}

#[test]
fn steps_out_of_turn_are_errors() {
    for pattern in PATTERNS {
        let honest = Honest::new();
        assert_eq!(honest.pair(pattern).1.write(&[]), Err(NoiseError::Unverified));
        assert_eq!(honest.pair(pattern).0.read(&[0; 48]), Err(NoiseError::Unverified));
        assert_eq!(honest.pair(pattern).0.finish().map(drop), Err(NoiseError::Unverified));
        let (mut initiator, mut responder) = honest.pair(pattern);
        let first = initiator.write(&[]).unwrap();
        assert_eq!(initiator.write(&[]), Err(NoiseError::Unverified));
        responder.read(&first).unwrap();
        assert_eq!(responder.finish().map(drop), Err(NoiseError::Unverified));
    }
}

#[test]
fn the_longest_payloads_fit_and_a_longer_one_changes_nothing() {
    for pattern in PATTERNS {
        let (mut initiator, mut responder) = Honest::new().pair(pattern);
        let longest = vec![5; MAX_MESSAGE - pattern.first_overhead()];
        assert_eq!(initiator.write(&[&longest[..], &[5]].concat()), Err(NoiseError::TooLong));
        let first = initiator.write(&longest).unwrap();
        assert_eq!(first.len(), MAX_MESSAGE);
        assert_eq!(responder.read(&first).unwrap(), longest);
        let longest = vec![6; MAX_MESSAGE - pattern.second_overhead()];
        assert_eq!(responder.write(&[&longest[..], &[6]].concat()), Err(NoiseError::TooLong));
        let second = responder.write(&longest).unwrap();
        assert_eq!(second.len(), MAX_MESSAGE);
        assert_eq!(initiator.read(&second).unwrap(), longest);
        initiator.finish().unwrap();
    }
}

#[test]
fn the_other_sides_key_is_known_once_it_is_proven() {
    let honest = Honest::new();
    let (mut initiator, mut responder) = honest.pair(Pattern::Ik);
    assert_eq!(responder.remote_static(), None);
    responder.read(&initiator.write(&[]).unwrap()).unwrap();
    assert_eq!(responder.remote_static(), Some(public_of(&honest.client)));
    assert_eq!(initiator.remote_static(), Some(public_of(&honest.server)));
    for pattern in [Pattern::Nk, Pattern::NnPsk0] {
        let (mut initiator, mut responder) = honest.pair(pattern);
        responder.read(&initiator.write(&[]).unwrap()).unwrap();
        assert_eq!(responder.remote_static(), None);
    }
}

/// A peer that gives a point of low order as its key, and knows therefore what the exchange with it results in, is refused.
/// The same peer gets through to a side that does not look: that is what makes this a test.
#[test]
fn points_of_low_order_are_refused_in_every_role() {
    for point in low_order_points() {
        let honest = Honest::new();
        for (pattern, forge) in [
            (Pattern::Nk, Forge::Ephemeral),
            (Pattern::Ik, Forge::Ephemeral),
            (Pattern::Ik, Forge::Static),
            (Pattern::NnPsk0, Forge::Ephemeral),
        ] {
            let forger = Forger { point, forge };
            let exchange = |mut responder: Noise| {
                let mut initiator = honest.forged(pattern, forger, true);
                responder.read(&initiator.write(&[]).unwrap())?;
                initiator.read(&responder.write(&[])?)?;
                assert_eq!(initiator.finish()?.send, responder.finish()?.recv);
                Ok(())
            };
            assert_eq!(
                exchange(honest.pair(pattern).1),
                Err(NoiseError::Unverified),
                "{pattern:?} {forge:?} {point:?}"
            );
            assert_eq!(exchange(honest.forged(pattern, Forger::HONEST, false)), Ok(()));
        }
        for pattern in PATTERNS {
            let forger = Forger { point, forge: Forge::Ephemeral };
            let exchange = |mut initiator: Noise| {
                let mut responder = honest.forged(pattern, forger, false);
                responder.read(&initiator.write(&[]).unwrap()).unwrap();
                initiator.read(&responder.write(&[]).unwrap()).map(drop)
            };
            assert_eq!(
                exchange(honest.pair(pattern).0),
                Err(NoiseError::Unverified),
                "{pattern:?} {point:?}"
            );
            assert_eq!(exchange(honest.forged(pattern, Forger::HONEST, true)), Ok(()));
        }
        let own = Own { private: &honest.client, public: &public_of(&honest.client) };
        for mut initiator in
            [Noise::initiator_nk(PROLOGUE, &point), Noise::initiator_ik(PROLOGUE, own, &point)]
                .map(Result::unwrap)
        {
            assert_eq!(initiator.write(&[]), Err(NoiseError::Unverified), "{point:?}");
        }
    }
}

/// The points of order 1, 2, 4 and 8 with a canonical encoding below 2^255, then those of them that are written with the
/// prime added, and all of these with the top bit, which X25519 ignores.
fn low_order_points() -> Vec<[u8; 32]> {
    [
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0100000000000000000000000000000000000000000000000000000000000000",
        "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
        "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    ]
    .iter()
    .flat_map(|hex| {
        let point = *unhex(hex).first_chunk().unwrap();
        let mut with_top_bit: [u8; 32] = point;
        with_top_bit[31] |= 0x80;
        [point, with_top_bit]
    })
    .collect()
}

/// The secrets of two sides.
struct Honest {
    client: [u8; 32],
    server: [u8; 32],
    psk: [u8; 32],
}

impl Honest {
    fn new() -> Self {
        let [client, server, psk] = [(); 3].map(|()| {
            let mut bytes = [0; 32];
            getrandom::fill(&mut bytes).unwrap();
            bytes
        });
        Self { client, server, psk }
    }

    fn pair(&self, pattern: Pattern) -> (Noise, Noise) {
        let own = Own { private: &self.server, public: &public_of(&self.server) };
        let responder = match pattern {
            Pattern::Nk => Noise::responder_nk(PROLOGUE, own),
            Pattern::Ik => Noise::responder_ik(PROLOGUE, own),
            Pattern::NnPsk0 => Noise::responder_resume(PROLOGUE, &Key::new(self.psk)),
        };
        (self.initiator(pattern, PROLOGUE), responder.unwrap())
    }

    fn initiator(&self, pattern: Pattern, prologue: &[u8]) -> Noise {
        let own = Own { private: &self.client, public: &public_of(&self.client) };
        match pattern {
            Pattern::Nk => Noise::initiator_nk(prologue, &public_of(&self.server)),
            Pattern::Ik => Noise::initiator_ik(prologue, own, &public_of(&self.server)),
            Pattern::NnPsk0 => Noise::initiator_resume(prologue, &Key::new(self.psk)),
        }
        .unwrap()
    }

    /// One side with X25519 as the forger has it.
    fn forged(&self, pattern: Pattern, forger: Forger, initiator: bool) -> Noise {
        let server = public_of(&self.server);
        let name = pattern.name().parse().unwrap();
        let mut builder = Builder::with_resolver(name, Box::new(forger)).prologue(PROLOGUE).unwrap();
        let own = if initiator { &self.client } else { &self.server };
        if pattern == Pattern::NnPsk0 {
            builder = builder.psk(0, &self.psk).unwrap();
        } else {
            builder = builder.local_private_key(own).unwrap();
            if initiator {
                builder = builder.remote_public_key(&server).unwrap();
            }
        }
        let state = if initiator { builder.build_initiator() } else { builder.build_responder() };
        Noise::new(pattern, state.unwrap())
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Forge {
    Nothing,
    Static,
    Ephemeral,
}

/// Primitives with an X25519 that refuses nothing and gives `point` as one of its public keys.
#[derive(Clone, Copy)]
struct Forger {
    point: [u8; 32],
    forge: Forge,
}

impl Forger {
    const HONEST: Forger = Forger { point: [0; 32], forge: Forge::Nothing };
}

impl CryptoResolver for Forger {
    fn resolve_rng(&self) -> Option<Box<dyn types::Random>> {
        Resolver::default().resolve_rng()
    }

    fn resolve_dh(&self, _: &DHChoice) -> Option<Box<dyn types::Dh>> {
        Some(Box::new(Unchecked { forger: *self, private: [0; 32], public: [0; 32] }))
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn types::Hash>> {
        Resolver::default().resolve_hash(choice)
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn types::Cipher>> {
        Resolver::default().resolve_cipher(choice)
    }
}

struct Unchecked {
    forger: Forger,
    private: [u8; 32],
    public: [u8; 32],
}

impl types::Dh for Unchecked {
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
        self.private.copy_from_slice(private);
        self.public = public_of(&self.private);
        if self.forger.forge == Forge::Static {
            self.public = self.forger.point;
        }
    }

    fn generate(&mut self, rng: &mut dyn types::Random) -> Result<(), Error> {
        rng.try_fill_bytes(&mut self.private)?;
        self.public = public_of(&self.private);
        if self.forger.forge == Forge::Ephemeral {
            self.public = self.forger.point;
        }
        Ok(())
    }

    fn pubkey(&self) -> &[u8] {
        &self.public
    }

    fn privkey(&self) -> &[u8] {
        &self.private
    }

    fn dh(&self, public: &[u8], out: &mut [u8]) -> Result<(), Error> {
        let forged = self.forger.forge != Forge::Nothing && self.public == self.forger.point;
        let shared = if forged { [0; 32] } else { x25519(self.private, *public.first_chunk().unwrap()) };
        out[..32].copy_from_slice(&shared);
        Ok(())
    }
}

fn public_of(private: &[u8; 32]) -> [u8; 32] {
    PublicKey::from(&StaticSecret::from(*private)).to_bytes()
}

fn unhex(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect()
}
