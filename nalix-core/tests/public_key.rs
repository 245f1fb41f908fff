//! Public keys as text.

use nalix_core::handshake::{ParseKeyError, PublicKey};
use proptest::prelude::*;

/// Alice's public key of RFC 7748 section 6.1.
const ALICE: [u8; 32] = [
    0x85, 0x20, 0xf0, 0x09, 0x89, 0x30, 0xa7, 0x54, 0x74, 0x8b, 0x7d, 0xdc, 0xb4, 0x3e, 0xf7, 0x5a, 0x0d,
    0xbf, 0x3a, 0x0d, 0x26, 0x38, 0x1a, 0xf4, 0xeb, 0xa4, 0xa9, 0x8e, 0xaa, 0x9b, 0x4e, 0x6a,
];
const TEXT: &str = "nalix1s5s0qzvfxzn4gayt0hwtg0hhtgxm7wsdycup4a8t5j5ca25mfe4qvecvq2";

fn parse(text: &str) -> Result<PublicKey, ParseKeyError> {
    text.parse()
}

#[test]
fn the_text_of_a_key_stays_the_same() {
    let key = PublicKey::from_bytes(ALICE).unwrap();
    assert_eq!(key.to_string(), TEXT);
    assert_eq!(format!("{key:?}"), TEXT);
    assert_eq!(format!("[{key:>70}]"), format!("[      {TEXT}]"));
    assert_eq!(parse(TEXT).unwrap().as_bytes(), &ALICE);
}

#[test]
fn copying_adds_white_space_or_changes_case_and_does_no_harm() {
    let key = parse(TEXT).unwrap();
    assert_eq!(parse(&format!("  {TEXT}\r\n\t")), Ok(key));
    assert_eq!(parse(&TEXT.to_uppercase()), Ok(key));
    assert_eq!(parse(&format!("N{}", &TEXT[1..])), Ok(key));
}

#[test]
fn errors_say_what_is_wrong() {
    let cases = [
        ("", "does not begin with `nalix1`"),
        ("nalix", "does not begin with `nalix1`"),
        ("hello world", "does not begin with `nalix1`"),
        ("\u{fc}\u{fc}\u{fc}\u{fc}", "does not begin with `nalix1`"),
        ("nalix1", "6 characters long, not 64"),
        (&TEXT[..63], "63 characters long, not 64"),
        (&format!("{TEXT}q"), "65 characters long, not 64"),
        (&TEXT.replace("nalix1", "nalix1b"), "character 'b' at position 7 cannot be part of a key"),
        (&format!("  {}\u{fc}", &TEXT[..63]), "character '\u{fc}' at position 64 cannot be part of a key"),
        (&format!("{TEXT} # server"), "character ' ' at position 65 cannot be part of a key"),
        (
            "nalixsecret1qqqq",
            "this is a private key, which must be kept secret; a public key begins with `nalix1`",
        ),
    ];
    for (text, message) in cases {
        assert_eq!(parse(text).unwrap_err().to_string(), message, "{text:?}");
    }
}

#[test]
fn one_or_two_wrong_characters_are_always_found() {
    let alphabet = "qpzry9x8gf2tvdw0s3jn54khce6mua7l";
    for at in 6..64 {
        for wrong in alphabet.chars() {
            let mut text: Vec<char> = TEXT.chars().collect();
            if text[at] != wrong {
                text[at] = wrong;
                assert_eq!(parse(&text.iter().collect::<String>()), Err(ParseKeyError::Checksum));
            }
            let second = 6 + (at - 6 + 17) % 58;
            text[second] = if text[second] == 'q' { 'p' } else { 'q' };
            assert_eq!(parse(&text.iter().collect::<String>()), Err(ParseKeyError::Checksum));
        }
        if at < 63 && TEXT.as_bytes()[at] != TEXT.as_bytes()[at + 1] {
            let mut text: Vec<char> = TEXT.chars().collect();
            text.swap(at, at + 1);
            assert_eq!(
                parse(&text.iter().collect::<String>()),
                Err(ParseKeyError::Checksum),
                "swapped at {at}"
            );
        }
    }
}

#[test]
fn the_text_of_a_point_of_low_order_is_refused_as_one() {
    // All zeros, right in every other way.
    let text = format!("nalix1{}{}", "q".repeat(52), "n5nfqg");
    assert!(matches!(parse(&text), Err(ParseKeyError::Unusable(_))));
}

proptest! {
    #[test]
    fn every_usable_key_survives_its_text(bytes: [u8; 32]) {
        if let Ok(key) = PublicKey::from_bytes(bytes) {
            prop_assert_eq!(parse(&key.to_string()), Ok(key));
            prop_assert_eq!(key.as_bytes(), &bytes);
        } else {
            prop_assert!(bytes[31] >= 0x7f);
        }
    }

    #[test]
    fn no_text_makes_the_parser_panic(text: String, tail: String) {
        let _ = parse(&text);
        let _ = parse(&format!("nalix1{tail}"));
    }
}

#[cfg(feature = "serde")]
mod with_serde {
    use std::fmt;

    use serde::{
        Deserialize, Serialize,
        de::{IntoDeserializer, value},
    };

    use super::*;

    struct AsText(PublicKey);

    impl fmt::Display for AsText {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.0.serialize(f)
        }
    }

    fn read(text: &str) -> Result<PublicKey, value::Error> {
        PublicKey::deserialize(text.into_deserializer())
    }

    #[test]
    fn serde_writes_and_reads_the_text() {
        let key = parse(TEXT).unwrap();
        assert_eq!(AsText(key).to_string(), TEXT);
        assert_eq!(read(TEXT), Ok(key));
    }

    #[test]
    fn errors_of_serde_say_what_is_wrong() {
        let error = read(&TEXT[..60]).unwrap_err().to_string();
        assert_eq!(error, "bad public key: 60 characters long, not 64");
        let number: value::U64Deserializer<value::Error> = 5u64.into_deserializer();
        let error = PublicKey::deserialize(number).unwrap_err().to_string();
        assert!(error.contains("expected a public key that begins with `nalix1`"), "{error}");
    }
}
