//! Public keys.

use std::{fmt, str::FromStr};

use super::text::{self, Kind, ParseKeyError, UnusableKey};

/// The public half of an [`Identity`](super::Identity): an X25519 public key (RFC 7748), by which a peer is
/// known.
///
/// Its text is in Bech32m (BIP 350): `nalix1`, then 58 letters and digits, the last six of which are a
/// checksum. It can be copied into a configuration file, read out or put into a QR code; mistakes are found
/// when it is parsed.
///
/// ```
/// use nalix_core::handshake::PublicKey;
///
/// let text = "nalix1s5s0qzvfxzn4gayt0hwtg0hhtgxm7wsdycup4a8t5j5ca25mfe4qvecvq2";
/// let key: PublicKey = text.parse()?;
/// assert_eq!(key.to_string(), text);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey([u8; PublicKey::LEN]);

impl PublicKey {
    /// Its length in bytes.
    pub const LEN: usize = 32;

    /// The key of these bytes, which are little-endian as in RFC 7748 section 5.
    ///
    /// # Errors
    /// [`UnusableKey`] for points of low order, and for numbers that are not below 2^255 - 19: the
    /// computation would take them for another key, and one key must not go by two names.
    pub fn from_bytes(bytes: [u8; PublicKey::LEN]) -> Result<Self, UnusableKey> {
        if is_canonical(&bytes) && !LOW_ORDER.contains(&bytes) { Ok(Self(bytes)) } else { Err(UnusableKey) }
    }

    /// Its bytes.
    pub const fn as_bytes(&self) -> &[u8; PublicKey::LEN] {
        &self.0
    }

    /// The key that belongs to a private key. It is always usable: its order is large, and it is written
    /// reduced.
    pub(super) fn of(secret: &x25519_dalek::StaticSecret) -> Self {
        Self(x25519_dalek::PublicKey::from(secret).to_bytes())
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&text::encode(Kind::Public, &self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// White space around the text is ignored, and so is the case of letters.
impl FromStr for PublicKey {
    type Err = ParseKeyError;

    fn from_str(text: &str) -> Result<Self, ParseKeyError> {
        Ok(Self::from_bytes(*text::decode(Kind::Public, text)?)?)
    }
}

/// As text, in every format.
#[cfg(feature = "serde")]
impl serde::Serialize for PublicKey {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// From text, in every format.
#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for PublicKey {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl serde::de::Visitor<'_> for Text {
            type Value = PublicKey;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a public key that begins with `nalix1`")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<PublicKey, E> {
                text.parse().map_err(|error| E::custom(format_args!("bad public key: {error}")))
            }
        }

        deserializer.deserialize_str(Text)
    }
}

/// Whether a number is below 2^255 - 19.
fn is_canonical(bytes: &[u8; 32]) -> bool {
    let [low, middle @ .., high] = bytes;
    match high {
        0..0x7f => true,
        0x7f => *low < 0xed || middle.iter().any(|&b| b != 0xff),
        _ => false,
    }
}

/// The points whose order divides 8, as canonical u-coordinates: 0, 1, two of order 8, and 2^255 - 20. RFC
/// 7748 section 6.1 says what they do; a test finds every one of them by that.
const LOW_ORDER: [[u8; 32]; 5] = [
    [0; 32],
    {
        let mut one = [0; 32];
        one[0] = 1;
        one
    },
    [
        0xe0, 0xeb, 0x7a, 0x7c, 0x3b, 0x41, 0xb8, 0xae, 0x16, 0x56, 0xe3, 0xfa, 0xf1, 0x9f, 0xc4, 0x6a, 0xda,
        0x09, 0x8d, 0xeb, 0x9c, 0x32, 0xb1, 0xfd, 0x86, 0x62, 0x05, 0x16, 0x5f, 0x49, 0xb8, 0x00,
    ],
    [
        0x5f, 0x9c, 0x95, 0xbc, 0xa3, 0x50, 0x8c, 0x24, 0xb1, 0xd0, 0xb1, 0x55, 0x9c, 0x83, 0xef, 0x5b, 0x04,
        0x44, 0x5c, 0xc4, 0x58, 0x1c, 0x8e, 0x86, 0xd8, 0x22, 0x4e, 0xdd, 0xd0, 0x9f, 0x11, 0x57,
    ],
    {
        let mut minus_one = [0xff; 32];
        minus_one[0] = 0xec;
        minus_one[31] = 0x7f;
        minus_one
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_of_low_order_are_refused_under_every_spelling() {
        for point in LOW_ORDER {
            assert_eq!(x25519_dalek::x25519([0x77; 32], point), [0; 32], "{point:02x?} is of low order");
            assert_eq!(PublicKey::from_bytes(point), Err(UnusableKey));
            let mut high = point;
            high[31] |= 0x80;
            assert_eq!(PublicKey::from_bytes(high), Err(UnusableKey));
        }
        for offset in [0xed, 0xee, 0xef, 0xff] {
            let mut prime = [0xff; 32];
            (prime[0], prime[31]) = (offset, 0x7f);
            assert_eq!(PublicKey::from_bytes(prime), Err(UnusableKey), "p + {}", offset - 0xed);
        }
        let mut last = [0xff; 32];
        (last[0], last[31]) = (0xeb, 0x7f);
        assert!(PublicKey::from_bytes(last).is_ok(), "p - 2 is a key");
    }
}
