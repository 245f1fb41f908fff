//! The ciphers: published vectors, and each backend against the other.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use nalix_core::record::{Best, Cipher, Key, Portable, Unauthentic};
use proptest::prelude::*;

#[test]
fn rfc_8439_section_2_8_2_portable() {
    rfc_8439_section_2_8_2::<Portable>();
}

#[test]
fn rfc_8439_section_2_8_2_best() {
    rfc_8439_section_2_8_2::<Best>();
}

#[test]
fn rfc_8439_appendix_a_5_portable() {
    rfc_8439_appendix_a_5::<Portable>();
}

#[test]
fn rfc_8439_appendix_a_5_best() {
    rfc_8439_appendix_a_5::<Best>();
}

fn rfc_8439_section_2_8_2<C: Cipher>() {
    let cipher = C::new(&key("808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f"));
    let nonce = *unhex("070000004041424344454647").first_chunk().unwrap();
    let ad = unhex("50515253c0c1c2c3c4c5c6c7");
    let plain =
        b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, \
        sunscreen would be it.";
    let sealed = unhex(
        "d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d63dbea45e8ca9671282fafb69da92728b\
        1a71de0a9e060b2905d6a5b67ecd3b3692ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc\
        3ff4def08e4b7a9de576d26586cec64b6116",
    );
    let tag = *unhex("1ae10b594f09e26a7e902ecbd0600691").first_chunk().unwrap();

    let mut data = plain.to_vec();
    assert_eq!(cipher.encrypt(nonce, &ad, &mut data), tag);
    assert_eq!(data, sealed);
    cipher.decrypt(nonce, &ad, &mut data, &tag).unwrap();
    assert_eq!(data, plain);
}

/// The nonce of this one is four zero bytes and a counter, so that it fits records.
fn rfc_8439_appendix_a_5<C: Cipher>() {
    let cipher = C::new(&key("1c9240a5eb55d38af333888604f6b5f0473917c1402b80099dca5cbc207075c0"));
    let counter = 0x0807_0605_0403_0201;
    let ad = unhex("f33388860000000000004e91");
    let sealed = unhex(
        "64a0861575861af460f062c79be643bd5e805cfd345cf389f108670ac76c8cb24c6cfc18755d43eea09ee94e382d26b0\
        bdb7b73c321b0100d4f03b7f355894cf332f830e710b97ce98c8a84abd0b948114ad176e008d33bd60f982b1ff37c855\
        9797a06ef4f0ef61c186324e2b3506383606907b6a7c02b0f9f6157b53c867e4b9166c767b804d46a59b5216cde7a4e9\
        9040c5a40433225ee282a1b0a06c523eaf4534d7f83fa1155b0047718cbc546a0d072b04b3564eea1b422273f548271a\
        0bb2316053fa76991955ebd63159434ecebb4e466dae5a1073a6727627097a1049e617d91d361094fa68f0ff77987130\
        305beaba2eda04df997b714d6c6f2c29a6ad5cb4022b02709b",
    );
    let tag = *unhex("eead9d67890cbb22392336fea1851f38").first_chunk().unwrap();
    let plain = "Internet-Drafts are draft documents valid for a maximum of six months and may be updated, replaced, \
        or obsoleted by other documents at any time. It is inappropriate to use Internet-Drafts as reference \
        material or to cite them other than as /\u{201c}work in progress./\u{201d}";

    let mut data = sealed.clone();
    cipher.open(counter, &ad, &mut data, &tag).unwrap();
    assert_eq!(std::str::from_utf8(&data), Ok(plain));
    assert_eq!(cipher.seal(counter, &ad, &mut data), tag);
    assert_eq!(data, sealed);
}

proptest! {
    #[test]
    fn backends_agree(
        key: [u8; 32],
        counter: u64,
        ad in prop::collection::vec(any::<u8>(), 0..40),
        plain in prop::collection::vec(any::<u8>(), 0..700),
    ) {
        let (portable, best) = (Portable::new(&Key::new(key)), Best::new(&Key::new(key)));
        let (mut one, mut other) = (plain.clone(), plain.clone());
        let tag = portable.seal(counter, &ad, &mut one);
        prop_assert_eq!(tag, best.seal(counter, &ad, &mut other));
        prop_assert_eq!(&one, &other);
        prop_assert_eq!(best.open(counter, &ad, &mut one, &tag), Ok(()));
        prop_assert_eq!(portable.open(counter, &ad, &mut other, &tag), Ok(()));
        prop_assert_eq!(&one, &plain);
        prop_assert_eq!(&other, &plain);
        prop_assert_eq!(portable.next_key(), best.next_key());
    }

    #[test]
    fn one_changed_bit_is_refused(
        key: [u8; 32],
        counter: u64,
        ad in prop::collection::vec(any::<u8>(), 1..40),
        plain in prop::collection::vec(any::<u8>(), 1..700),
        at: prop::sample::Index,
    ) {
        one_changed_bit::<Portable>(key, counter, &ad, &plain, at)?;
        one_changed_bit::<Best>(key, counter, &ad, &plain, at)?;
    }
}

fn one_changed_bit<C: Cipher>(
    key: [u8; 32],
    counter: u64,
    ad: &[u8],
    plain: &[u8],
    at: prop::sample::Index,
) -> Result<(), TestCaseError> {
    let cipher = C::new(&Key::new(key));
    let mut sealed = plain.to_vec();
    let tag = cipher.seal(counter, ad, &mut sealed);
    let open = |counter, ad: &[u8], data: &[u8], tag: &[u8]| {
        cipher.open(counter, ad, &mut data.to_vec(), tag.first_chunk().unwrap())
    };

    prop_assert_eq!(open(counter, ad, &sealed, &tag), Ok(()));
    prop_assert_eq!(open(counter, &flipped(ad, at), &sealed, &tag), Err(Unauthentic));
    prop_assert_eq!(open(counter, ad, &flipped(&sealed, at), &tag), Err(Unauthentic));
    prop_assert_eq!(open(counter, ad, &sealed, &flipped(&tag, at)), Err(Unauthentic));
    prop_assert_eq!(open(counter ^ (1 << at.index(64)), ad, &sealed, &tag), Err(Unauthentic));
    let other = C::new(&key_of(&flipped(&key, at)));
    prop_assert_eq!(other.open(counter, ad, &mut sealed, &tag), Err(Unauthentic));
    Ok(())
}

#[test]
fn debug_shows_no_key() {
    let key = Key::new([0xa7; 32]);
    for text in [format!("{:?}", Portable::new(&key)), format!("{:?}", Best::new(&key)), format!("{key:?}")] {
        assert!(!text.contains("a7") && !text.contains("167"), "{text}");
    }
}

fn flipped(bytes: &[u8], at: prop::sample::Index) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let bit = at.index(bytes.len() * 8);
    bytes[bit / 8] ^= 1 << (bit % 8);
    bytes
}

fn key(hex: &str) -> Key {
    key_of(&unhex(hex))
}

fn key_of(bytes: &[u8]) -> Key {
    Key::new(bytes.try_into().unwrap())
}

fn unhex(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect()
}
