//! The suites of sealed records: which one is chosen, and AES-256-GCM against published vectors where this build has it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use nalix_core::record::{
    Chosen, Cipher, HEADER, Key, OpenError, Opener, Sealer, Suite, Suites, Unauthentic,
};

const SUITES: [Suite; 2] = [Suite::ChaCha20Poly1305, Suite::Aes256Gcm];

/// Test cases 13, 14 and 16 of McGrew and Viega, "The Galois/Counter Mode of Operation (GCM)", appendix B.
#[test]
fn aes_256_gcm_has_its_published_bytes() {
    let long = "feffe9928665731c6d6a8f9467308308";
    let cases = [
        ("00".repeat(32), "00".repeat(12), "", "", "", "530f8afbc74536b9a963b4f1c4cb738b"),
        (
            "00".repeat(32),
            "00".repeat(12),
            "",
            "00000000000000000000000000000000",
            "cea7403d4d606b6e074ec5d3baf39d18",
            "d0d1c8a799996bf0265b98b5d48ab919",
        ),
        (
            long.repeat(2),
            "cafebabefacedbaddecaf888".into(),
            "feedfacedeadbeeffeedfacedeadbeefabaddad2",
            "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525\
            b16aedf5aa0de657ba637b39",
            "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056828838\
            c5f61e6393ba7a0abcc9f662",
            "76fc6ece0f4e1768cddf8853bb2d551b",
        ),
    ];
    for (key, nonce, ad, plain, sealed, tag) in cases {
        let key = Key::new(*unhex(&key).first_chunk().unwrap());
        // A build without it is not to fail here, nor one on a machine that would be slow with it.
        let Some(cipher) = Chosen::with(Suite::Aes256Gcm, &key) else { return };
        let nonce = *unhex(&nonce).first_chunk().unwrap();
        let (ad, mut data) = (unhex(ad), unhex(plain));
        let found = cipher.encrypt(nonce, &ad, &mut data);
        assert_eq!((hex(&data), hex(&found)), (sealed.replace(' ', ""), tag.to_owned()));
        cipher.decrypt(nonce, &ad, &mut data, &found).unwrap();
        assert_eq!(hex(&data), plain.replace(' ', ""));
        let wrong = std::array::from_fn(|i| found[i] ^ u8::from(i == 15));
        assert_eq!(cipher.decrypt(nonce, &ad, &mut data, &wrong), Err(Unauthentic));
    }
}

#[test]
fn every_suite_seals_opens_and_renews_its_key() {
    for suite in SUITES {
        let key = Key::new([3; Key::LEN]);
        let (Some(ours), Some(theirs)) = (Chosen::with(suite, &key), Chosen::with(suite, &key)) else {
            continue;
        };
        assert_eq!(ours.suite(), suite);
        let renewed = ours.renewed();
        assert_eq!(renewed.suite(), suite);
        assert_ne!(renewed.next_key(), ours.next_key());
        let (mut sealer, mut opener) = (Sealer::with(ours), Opener::with(theirs));
        for len in [0, 1, 15, 16, 17, 1_000, 70_000] {
            let mut record = vec![0; HEADER];
            record.extend((0..len).map(|i| i as u8));
            sealer.seal(&mut record, 0).unwrap();
            let (head, body) = record.split_first_chunk_mut::<HEADER>().unwrap();
            let mut changed = body.to_vec();
            *changed.last_mut().unwrap() ^= 1;
            assert_eq!(opener.open(*head, &mut changed), Err(OpenError::Unauthentic));
            assert_eq!(opener.open(*head, body), Ok(len));
            assert!(body[..len].iter().zip(0..).all(|(byte, i)| *byte == i as u8), "{suite:?}, {len}");
        }
    }
}

#[test]
fn what_one_suite_has_sealed_another_does_not_open() {
    let key = Key::new([3; Key::LEN]);
    let Some(aes) = Chosen::with(Suite::Aes256Gcm, &key) else { return };
    let mut record = vec![0; HEADER + 40];
    Sealer::with(aes).seal(&mut record, 0).unwrap();
    let (head, body) = record.split_first_chunk_mut::<HEADER>().unwrap();
    assert_eq!(Opener::new(key).open(*head, body), Err(OpenError::Unauthentic));
}

#[test]
fn the_fastest_that_both_have_is_chosen_and_one_always_is() {
    let (here, common) = (Suites::here(), Suites::COMMON);
    assert!(here.contains(Suite::ChaCha20Poly1305) && !common.contains(Suite::Aes256Gcm));
    assert_eq!(here.choose(common), Some(Suite::ChaCha20Poly1305));
    assert_eq!(common.choose(here), Some(Suite::ChaCha20Poly1305));
    assert_eq!(here.choose(Suites::NONE), None);
    let fastest = if here.contains(Suite::Aes256Gcm) { Suite::Aes256Gcm } else { Suite::ChaCha20Poly1305 };
    assert_eq!(here.choose(here), Some(fastest));
    // What is announced must be there.
    for suite in SUITES.into_iter().filter(|&suite| here.contains(suite)) {
        assert!(Chosen::with(suite, &Key::new([0; Key::LEN])).is_some());
    }
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap()).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
