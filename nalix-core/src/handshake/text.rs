//! Keys as text, in Bech32m (BIP 350): a prefix that says what the key is for, its bytes at five bits to a
//! character, and six characters of checksum over both.
//!
//! The characters leave out those that look like others. Up to four wrong ones are always found, more but for
//! one time in a thousand million.

use thiserror::Error;
use zeroize::Zeroizing;

/// What a key is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Public,
    Private,
}

impl Kind {
    /// What its text begins with. The last character parts the prefix from the rest, and is in neither.
    pub(super) const fn prefix(self) -> &'static str {
        match self {
            Kind::Public => "nalix1",
            Kind::Private => "nalixsecret1",
        }
    }

    /// Whether a text says that it is of this kind.
    pub(super) fn is_claimed_by(self, text: &str) -> bool {
        self.strip(text).is_some()
    }

    fn strip(self, text: &str) -> Option<&str> {
        let (head, rest) = text.split_at_checked(self.prefix().len())?;
        head.eq_ignore_ascii_case(self.prefix()).then_some(rest)
    }
}

/// A text that is not a key.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParseKeyError {
    /// It begins like no key of the kind expected.
    #[error("does not begin with `{expected}`")]
    Prefix {
        /// What it should begin with.
        expected: &'static str,
    },
    /// A private key where a public one is expected. Whoever has seen it can take its owner's place.
    #[error("this is a private key, which must be kept secret; a public key begins with `nalix1`")]
    PrivateKey,
    /// A public key where a private one is expected.
    #[error("this is a public key; a private key begins with `nalixsecret1`")]
    PublicKey,
    /// A character that no key contains.
    #[error("character {found:?} at position {at} cannot be part of a key")]
    Character {
        /// The character.
        found: char,
        /// Its position in characters, from 1, white space in front not counted.
        at: usize,
    },
    /// Too short or too long; cut when it was copied, perhaps.
    #[error("{found} characters long, not {expected}")]
    Length {
        /// Its length in characters.
        found: usize,
        /// What the length should be.
        expected: usize,
    },
    /// Characters were changed or exchanged.
    #[error("the checksum is wrong, so at least one character is")]
    Checksum,
    /// The text is whole, but its bytes are of no use as a key.
    #[error(transparent)]
    Unusable(#[from] UnusableKey),
}

/// Bytes that cannot be a public key: X25519 gives the same result with them for every private key (points of
/// low order, RFC 7748 section 6.1), or they are another spelling of a key (RFC 7748 section 5 says which one
/// is written).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("these bytes are not a usable X25519 public key")]
#[non_exhaustive]
pub struct UnusableKey;

/// A key's text. There is no copy of it or of the key but the one returned.
pub(super) fn encode(kind: Kind, bytes: &[u8; 32]) -> Zeroizing<String> {
    let mut text = Zeroizing::new(String::with_capacity(kind.prefix().len() + SYMBOLS + CHECKSUM));
    text.push_str(kind.prefix());
    let mut sum = Checksum::new(kind);
    for i in 0..SYMBOLS {
        let symbol = symbol_at(bytes, i);
        sum.push(symbol);
        text.push(char::from(ALPHABET[usize::from(symbol)]));
    }
    for symbol in sum.symbols() {
        text.push(char::from(ALPHABET[usize::from(symbol)]));
    }
    text
}

/// Reads a key's text; white space around it and the case of letters do not matter.
pub(super) fn decode(kind: Kind, text: &str) -> Result<Zeroizing<[u8; 32]>, ParseKeyError> {
    let text = text.trim();
    let Some(rest) = kind.strip(text) else {
        return Err(match kind {
            Kind::Public if Kind::Private.is_claimed_by(text) => ParseKeyError::PrivateKey,
            Kind::Private if Kind::Public.is_claimed_by(text) => ParseKeyError::PublicKey,
            _ => ParseKeyError::Prefix { expected: kind.prefix() },
        });
    };
    let mut bytes = Zeroizing::new([0; 32]);
    let mut sum = Checksum::new(kind);
    let mut len = 0;
    for found in rest.chars() {
        let lower = found.to_ascii_lowercase();
        let Some(symbol) = ALPHABET.iter().position(|&c| char::from(c) == lower) else {
            return Err(ParseKeyError::Character { found, at: kind.prefix().len() + len + 1 });
        };
        sum.push(symbol as u8);
        if len < SYMBOLS {
            put_symbol(&mut bytes, len, symbol as u8);
        }
        len += 1;
    }
    if len != SYMBOLS + CHECKSUM {
        let prefix = kind.prefix().len();
        return Err(ParseKeyError::Length { found: prefix + len, expected: prefix + SYMBOLS + CHECKSUM });
    }
    // The last symbol has bits to spare. Were they free, a key would have several texts.
    let last = rest.as_bytes()[SYMBOLS - 1].to_ascii_lowercase();
    if !sum.is_right() || ALPHABET[usize::from(symbol_at(&bytes, SYMBOLS - 1))] != last {
        return Err(ParseKeyError::Checksum);
    }
    Ok(bytes)
}

/// The bits `5 * i` to `5 * i + 4` of a key, counted from the first byte's highest; zeros behind the last.
fn symbol_at(bytes: &[u8; 32], i: usize) -> u8 {
    let (byte, bit) = (5 * i / 8, 5 * i % 8);
    let pair = u16::from_be_bytes([bytes[byte], bytes.get(byte + 1).copied().unwrap_or(0)]);
    ((pair >> (11 - bit)) & 31) as u8
}

/// Sets the bits that [`symbol_at`] reads, which must be zero.
fn put_symbol(bytes: &mut [u8; 32], i: usize, symbol: u8) {
    let (byte, bit) = (5 * i / 8, 5 * i % 8);
    let [high, low] = (u16::from(symbol) << (11 - bit)).to_be_bytes();
    bytes[byte] |= high;
    if let Some(next) = bytes.get_mut(byte + 1) {
        *next |= low;
    }
}

/// The checksum of BIP 173 with the constant of BIP 350.
struct Checksum(u32);

impl Checksum {
    fn new(kind: Kind) -> Self {
        let prefix = kind.prefix().as_bytes();
        Self::of_prefix(&prefix[..prefix.len() - 1])
    }

    fn of_prefix(prefix: &[u8]) -> Self {
        let mut sum = Self(1);
        prefix.iter().for_each(|c| sum.push(c >> 5));
        sum.push(0);
        prefix.iter().for_each(|c| sum.push(c & 31));
        sum
    }

    fn push(&mut self, symbol: u8) {
        let top = self.0 >> 25;
        self.0 = ((self.0 & 0x01ff_ffff) << 5) ^ u32::from(symbol);
        for (i, generator) in GENERATORS.iter().enumerate() {
            if (top >> i) & 1 == 1 {
                self.0 ^= generator;
            }
        }
    }

    /// The symbols that make the text right.
    fn symbols(mut self) -> [u8; CHECKSUM] {
        (0..CHECKSUM).for_each(|_| self.push(0));
        let sum = self.0 ^ RIGHT;
        std::array::from_fn(|i| ((sum >> (5 * (CHECKSUM - 1 - i))) & 31) as u8)
    }

    /// Whether the text, with its checksum, is right.
    fn is_right(&self) -> bool {
        self.0 == RIGHT
    }
}

/// Characters that 32 bytes take.
const SYMBOLS: usize = 52;
/// Characters of checksum.
const CHECKSUM: usize = 6;
const ALPHABET: &[u8; 32] = b"qpzry9x8gf2tvdw0s3jn54khce6mua7l";
const GENERATORS: [u32; 5] = [0x3b6a_57b2, 0x2650_8e6d, 0x1ea1_19fa, 0x3d42_33dd, 0x2a14_62b3];
const RIGHT: u32 = 0x2bc8_30a3;

#[cfg(test)]
mod tests {
    use super::*;

    fn is_bech32m(text: &str) -> bool {
        let text = text.to_ascii_lowercase();
        let (prefix, rest) = text.rsplit_once('1').unwrap();
        let mut sum = Checksum::of_prefix(prefix.as_bytes());
        for c in rest.bytes() {
            let Some(symbol) = ALPHABET.iter().position(|&a| a == c) else { return false };
            sum.push(symbol as u8);
        }
        sum.is_right()
    }

    /// From BIP 350, "Test vectors for Bech32m". The wrong ones: two that BIP 173 gives as right for the older
    /// constant, and one whose checksum was made over an upper-case prefix.
    #[test]
    fn published_checksums_are_right() {
        for text in [
            "A1LQFN3A",
            "a1lqfn3a",
            "an83characterlonghumanreadablepartthatcontainsthetheexcludedcharactersbioandnumber11sg7hg6",
            "abcdef1l7aum6echk45nj3s0wdvt2fg8x9yrzpqzd3ryx",
            "11llllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllludsr8",
            "split1checkupstagehandshakeupstreamerranterredcaperredlc445v",
            "?1v759aa",
        ] {
            assert!(is_bech32m(text), "{text}");
        }
        for text in ["a12uel5l", "split1checkupstagehandshakeupstreamerranterredcaperred2y9e3w", "M1VUXWEZ"] {
            assert!(!is_bech32m(text), "{text}");
        }
    }

    #[test]
    fn private_and_public_texts_are_never_taken_for_each_other() {
        let bytes = [0x5a; 32];
        let (public, private) = (encode(Kind::Public, &bytes), encode(Kind::Private, &bytes));
        assert_eq!(decode(Kind::Public, &private), Err(ParseKeyError::PrivateKey));
        assert_eq!(decode(Kind::Private, &public), Err(ParseKeyError::PublicKey));
        // The checksum covers the prefix, so exchanging it does not help.
        let forged = public.replacen("nalix1", "nalixsecret1", 1);
        assert_eq!(decode(Kind::Private, &forged), Err(ParseKeyError::Checksum));
        assert_eq!(*decode(Kind::Private, &private).unwrap(), bytes);
        assert!(is_bech32m(&public) && is_bech32m(&private));
    }

    #[test]
    fn a_key_has_one_text_only() {
        // The same bytes with a spare bit set, under a checksum that is right for it.
        let bytes = [0; 32];
        for spare in 1..16 {
            let mut sum = Checksum::new(Kind::Public);
            let mut text = String::from("nalix1");
            for i in 0..SYMBOLS {
                let symbol = symbol_at(&bytes, i) | if i == SYMBOLS - 1 { spare } else { 0 };
                sum.push(symbol);
                text.push(char::from(ALPHABET[usize::from(symbol)]));
            }
            sum.symbols().iter().for_each(|&s| text.push(char::from(ALPHABET[usize::from(s)])));
            assert!(is_bech32m(&text));
            assert_eq!(decode(Kind::Public, &text), Err(ParseKeyError::Checksum), "{spare}");
        }
    }
}
