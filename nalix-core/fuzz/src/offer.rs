//! A hello that resumes a session, around any offer: what a client can send that knows the secret and keeps
//! to nothing else.
//!
//! The first message of `Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s`, by the Noise Protocol Framework, revision
//! 34, sections 5 and 9, without any of the code that it is tested against but the cipher. Neither token of
//! it, `psk` and `e`, takes a key exchange.

use blake2::{Blake2s256, Digest};
use nalix_core::{
    handshake::{Hello, Way},
    record::{Cipher, Key, Portable},
};

/// The body of a hello whose prologue is `hello`'s, with this ephemeral key, which need not be one.
pub(crate) fn hello(hello: &Hello, secret: &Key, ephemeral: [u8; 32], offer: &[u8]) -> Vec<u8> {
    assert!(matches!(hello.way, Way::Resume(_)));
    let prologue = hello.prologue();
    let name = hash(&[b"Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s"]);
    let h = hash(&[&name, &prologue]);
    let [ck, to_hash, _] = derive(&name, secret.as_bytes());
    let h = hash(&[&h, &to_hash]);
    let h = hash(&[&h, &ephemeral]);
    let [_, key, _] = derive(&ck, &ephemeral);
    let mut sealed = offer.to_vec();
    let tag = Portable::new(&Key::new(key)).encrypt([0; 12], &h, &mut sealed);
    [&prologue[..], &ephemeral, &sealed, &tag].concat()
}

/// `HKDF` (section 4.3); of two outputs, the first two.
fn derive(ck: &[u8; 32], input: &[u8]) -> [[u8; 32]; 3] {
    let temp = hmac(ck, &[input]);
    let first = hmac(&temp, &[&[1]]);
    let second = hmac(&temp, &[&first, &[2]]);
    let third = hmac(&temp, &[&second, &[3]]);
    [first, second, third]
}

/// HMAC (RFC 2104) with a block of 64 bytes.
fn hmac(key: &[u8; 32], parts: &[&[u8]]) -> [u8; 32] {
    let pad = |with: u8| {
        let mut block = [with; 64];
        block.iter_mut().zip(key).for_each(|(byte, key)| *byte ^= key);
        block
    };
    let inner = hash(&[&[&pad(0x36)[..]], parts].concat());
    hash(&[&pad(0x5c), &inner])
}

fn hash(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Blake2s256::new();
    parts.iter().for_each(|part| hash.update(part));
    hash.finalize().into()
}
