//! Finds bytes in a text, in whatever form they may have been printed.

use nalix_server::Identity;

/// What must not be found.
#[derive(Default)]
pub(crate) struct Secrets {
    needles: Vec<(&'static str, Needles)>,
}

/// The forms of one secret's parts, for each way to look at a text.
#[derive(Default)]
struct Needles {
    /// In the text as it is.
    exact: Vec<String>,
    /// In the text without white space.
    dense: Vec<String>,
    /// In the text without all but letters and digits, in lower case.
    letters: Vec<String>,
}

/// So many bytes in a row are a find: few enough to find a part, and too many to be there by chance.
const PART: usize = 8;

impl Secrets {
    /// Adds a secret of at least eight bytes.
    pub(crate) fn add(&mut self, name: &'static str, secret: &[u8]) {
        assert!(secret.len() >= PART, "{name} is too short to be found for sure");
        let mut needles = Needles::default();
        for part in secret.windows(PART) {
            if let Ok(text) = std::str::from_utf8(part) {
                needles.exact.push(text.to_owned());
            }
            needles.exact.push(String::from_utf8_lossy(part).into_owned());
            needles.exact.push(part.escape_ascii().to_string());
            needles.dense.push(list(part, |byte| format!("{byte}")));
            needles.dense.push(list(part, |byte| format!("{byte:x}")));
            needles.dense.push(list(part, |byte| format!("0x{byte:x}")));
            needles.letters.push(part.iter().map(|byte| format!("{byte:02x}")).collect());
            for skipped in 0..3 {
                let base64 = base64(part, skipped);
                needles.exact.push(base64.replace('+', "-").replace('/', "_"));
                needles.exact.push(base64);
            }
        }
        // What is nothing but replacement characters is found in anything.
        needles.exact.retain(|needle| needle.chars().any(|c| c != char::REPLACEMENT_CHARACTER));
        self.needles.push((name, needles));
    }

    /// Adds the private half, as bytes and as the text in files.
    pub(crate) fn add_identity(&mut self, name: &'static str, identity: &Identity) {
        let text = identity.to_text();
        let private = text.lines().rfind(|line| !line.is_empty() && !line.starts_with('#')).unwrap();
        let public = identity.public_key();
        assert_eq!(bech32(&public.to_string())[..32], public.as_bytes()[..], "it is read as it is written");
        self.add(name, &bech32(private)[..32]);
        let (_, letters) = private.rsplit_once('1').unwrap();
        self.add(name, letters.as_bytes());
    }

    /// The name and form of a secret that is in the text.
    pub(crate) fn found_in(&self, text: &str) -> Option<String> {
        let dense: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let letters: String = text.chars().filter(char::is_ascii_alphanumeric).collect();
        let letters = letters.to_ascii_lowercase();
        for (name, needles) in &self.needles {
            let looks = [
                (text, &needles.exact),
                (&dense, &needles.dense),
                (&dense.to_ascii_lowercase(), &needles.dense),
                (&letters, &needles.letters),
            ];
            for (haystack, needles) in looks {
                if let Some(needle) = needles.iter().find(|needle| haystack.contains(needle.as_str())) {
                    return Some(format!("{name} as {needle}"));
                }
            }
        }
        None
    }
}

/// As `Debug` prints the middle of a list, without white space.
fn list(bytes: &[u8], form: impl Fn(&u8) -> String) -> String {
    format!(",{},", bytes[1..PART - 1].iter().map(form).collect::<Vec<_>>().join(","))
}

/// The characters that depend on these bytes alone, when so many bytes of others come before in their group of three.
fn base64(bytes: &[u8], skipped: usize) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bits: Vec<u8> = bytes.iter().flat_map(|byte| (0..8).rev().map(move |n| byte >> n & 1)).collect();
    let first = [0, 4, 2][skipped];
    let sixes = bits[first..].chunks_exact(6).map(|six| six.iter().fold(0, |n, bit| n << 1 | bit));
    sixes.map(|n: u8| char::from(LETTERS[usize::from(n)])).collect()
}

/// The bytes of a Bech32 text, and what its checksum comes to as bytes.
fn bech32(text: &str) -> Vec<u8> {
    const LETTERS: &str = "qpzry9x8gf2tvdw0s3jn54khce6mua7l";
    let letters = text.trim().to_ascii_lowercase();
    let letters = letters.rsplit_once('1').unwrap().1;
    let fives = letters.chars().map(|c| LETTERS.find(c).unwrap());
    let bits: Vec<u8> = fives.flat_map(|five| (0..5).rev().map(move |n| (five >> n & 1) as u8)).collect();
    bits.chunks_exact(8).map(|eight| eight.iter().fold(0, |n, bit| n << 1 | bit)).collect()
}

#[test]
fn a_planted_secret_is_found_in_every_form() {
    let secret: Vec<u8> = (0..32u32).map(|n| (n * 73 + 200) as u8).collect();
    let mut secrets = Secrets::default();
    secrets.add("it", &secret);
    secrets.add("words", b"pass word");
    let hex: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
    let known = "yBFao+w1fscQWaLrNH3GD1ih6jN8xQ5XoOkye8QNVp8="; // by another program
    let mut planted = vec![
        hex.to_uppercase(),
        hex.clone(),
        hex.as_bytes().chunks(2).map(|two| std::str::from_utf8(two).unwrap()).collect::<Vec<_>>().join(":"),
        known.to_owned(),
        known.replace('+', "-").replace('/', "_"),
        format!("{secret:?}"),
        format!("{secret:#?}"),
        format!("{secret:x?}"),
        format!("{secret:X?}"),
        format!("{secret:#x?}"),
        format!("{secret:02x?}"),
        format!("{:?}", &secret[20..28]),
        hex[30..50].to_owned(),
        format!("{:?}", bytes::Bytes::from(secret.clone())),
        secret.escape_ascii().to_string(),
        String::from_utf8_lossy(&secret).into_owned(),
        "the pass word".to_owned(),
        format!("{:?}", b"pass word"),
        format!("{:?}", bytes::Bytes::from_static(b"a pass word")),
    ];
    for before in 0..3 {
        let all = [&vec![1; before], &secret[..], &[2, 3]].concat();
        planted.push(base64(&all, 0));
    }
    for text in planted {
        let text = format!("handshake {{ state: {text} }}");
        assert!(secrets.found_in(&text).is_some(), "{text}");
    }
    for nothing in
        ["", "handshake { state: Key(..) }", "0, 1, 2, 3, 4, 5, 6, 7, 8, 9", "aaaaaaaaaaaaaaaaaaaaaaaa"]
    {
        assert_eq!(secrets.found_in(nothing), None);
    }
}

#[test]
fn the_private_half_of_an_identity_is_found_and_the_public_one_is_not() {
    let identity = Identity::generate().unwrap();
    let mut secrets = Secrets::default();
    secrets.add_identity("it", &identity);
    let text = identity.to_text();
    assert!(secrets.found_in(&text).is_some());
    assert_eq!(secrets.found_in(&identity.public_key().to_string()), None);
    assert_eq!(secrets.found_in(&format!("{:?}", identity.public_key().as_bytes())), None);
    let private = bech32(text.lines().last().unwrap());
    assert!(secrets.found_in(&format!("{:?}", &private[..32])).is_some());
}
