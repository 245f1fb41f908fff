//! The header that a proxy puts in front of a connection, to say whose it is: the PROXY protocol, versions 1 and 2
//! (W. Tarreau, *The PROXY protocol*, HAProxy, 2010 to 2020).
//!
//! Whoever may send the header may say anything, so it is read from listed proxies only, and required of them. Nothing is
//! guessed: section 2 of the specification.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    str,
};

use thiserror::Error;

/// What a header says of its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// It is the proxy's own (`LOCAL`), such as a health check; or the proxy does not know whose it is (`UNKNOWN`,
    /// `UNSPEC`).
    Proxy,
    /// A client at an IP address has it. An IPv4 address in the form of an IPv6 address stands here as IPv4.
    Inet {
        /// The client.
        source: SocketAddr,
        /// What the client has connected to.
        destination: SocketAddr,
    },
    /// A client on a Unix socket of the proxy's has it; there is no IP address.
    Unix,
}

/// A whole header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Header {
    /// Whose connection it is.
    pub origin: Origin,
    /// How many bytes it has. What follows them is the connection's.
    pub len: usize,
}

/// Why bytes are no header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// They do not begin like one, of either version.
    #[error("it does not begin with a PROXY header")]
    Missing,
    /// The line of version 1 is not what it must be.
    #[error("the line of the PROXY header is malformed")]
    Line,
    /// The binary form has another version.
    #[error("version {0} of the PROXY header is unknown")]
    Version(u8),
    /// The binary form has another command.
    #[error("command {0} of the PROXY header is unknown")]
    Command(u8),
    /// The binary form has another address family or transport.
    #[error("the address family or transport {0:#04x} of the PROXY header is unknown")]
    Family(u8),
    /// It is longer than allowed; so is a line of version 1 that does not end within 107 bytes.
    #[error("the PROXY header is longer than {max} bytes")]
    TooLong {
        /// What is allowed.
        max: usize,
    },
    /// The binary form is too short for the addresses that it must hold.
    #[error("the PROXY header has {len} bytes of addresses instead of {needed}")]
    TooShort {
        /// What it says it has.
        len: usize,
        /// What its family takes.
        needed: usize,
    },
}

/// Reads a header at the start of `bytes`; `None` if more bytes are needed. A header of more than `max` bytes, at least
/// [`MAX_LINE`], is refused as soon as that is known.
///
/// Bytes in front decide: once there is a header or an error, more bytes change nothing.
///
/// # Errors
/// [`HeaderError`] if this is no header, whatever comes next.
pub fn parse(bytes: &[u8], max: usize) -> Result<Option<Header>, HeaderError> {
    match bytes.first() {
        None => Ok(None),
        Some(b'P') => parse_line(bytes),
        Some(_) => parse_binary(bytes, max.max(MAX_LINE)),
    }
}

/// Version 1, a line of text: section 2.1.
fn parse_line(bytes: &[u8]) -> Result<Option<Header>, HeaderError> {
    if !begins(bytes, LINE_START) {
        return Err(HeaderError::Missing);
    }
    let window = &bytes[..bytes.len().min(MAX_LINE)];
    let Some(end) = window.windows(2).position(|pair| pair == b"\r\n") else {
        let whole = window.len() == MAX_LINE;
        return if whole { Err(HeaderError::TooLong { max: MAX_LINE }) } else { Ok(None) };
    };
    // The end is behind the start, in which there is no such pair.
    let rest = window.get(LINE_START.len()..end).ok_or(HeaderError::Line)?;
    let origin = line_origin(rest).ok_or(HeaderError::Line)?;
    Ok(Some(Header { origin, len: end + 2 }))
}

/// The line behind `PROXY `, without its end.
fn line_origin(rest: &[u8]) -> Option<Origin> {
    // What follows `UNKNOWN` is to be ignored, whatever it is.
    if let Some(ignored) = rest.strip_prefix(b"UNKNOWN") {
        return (ignored.is_empty() || ignored[0] == b' ').then_some(Origin::Proxy);
    }
    let mut words = str::from_utf8(rest).ok()?.split(' ');
    let mut word = || words.next();
    let is_v4 = match word()? {
        "TCP4" => true,
        "TCP6" => false,
        _ => return None,
    };
    let address = |text: &str| -> Option<IpAddr> {
        match is_v4 {
            true => text.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
            false => text.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        }
    };
    let (source, destination) = (address(word()?)?, address(word()?)?);
    let (source_port, destination_port) = (port(word()?)?, port(word()?)?);
    if word().is_some() {
        return None;
    }
    Some(inet(source, source_port, destination, destination_port))
}

/// Digits without zeros in front.
fn port(text: &str) -> Option<u16> {
    let plain = text.bytes().all(|c| c.is_ascii_digit()) && (text.len() == 1 || !text.starts_with('0'));
    plain.then(|| text.parse().ok()).flatten()
}

/// Version 2, binary: section 2.2. Whatever is behind the addresses is skipped, as it may be.
fn parse_binary(bytes: &[u8], max: usize) -> Result<Option<Header>, HeaderError> {
    if !begins(bytes, SIGNATURE) {
        return Err(HeaderError::Missing);
    }
    let Some(&[version, family, ..]) = bytes.get(SIGNATURE.len()..) else {
        // One of the two may be there already.
        return bytes.get(SIGNATURE.len()).map_or(Ok(None), |&version| command(version).map(|_| None));
    };
    let is_proxied = command(version)?;
    // Of a connection of the proxy's own, the family is ignored.
    let needed = if is_proxied { addresses_len(family)? } else { 0 };
    let Some(&[high, low]) = bytes.get(SIGNATURE.len() + 2..FIXED) else { return Ok(None) };
    let len = usize::from(u16::from_be_bytes([high, low]));
    if len < needed {
        return Err(HeaderError::TooShort { len, needed });
    }
    if FIXED + len > max {
        return Err(HeaderError::TooLong { max });
    }
    let Some(block) = bytes.get(FIXED..FIXED + len) else { return Ok(None) };
    let origin = match needed {
        V4_LEN => v4_origin(block),
        V6_LEN => v6_origin(block),
        UNIX_LEN => Some(Origin::Unix),
        _ => Some(Origin::Proxy),
    };
    // The length has been compared with what is needed.
    let origin = origin.ok_or(HeaderError::TooShort { len, needed })?;
    Ok(Some(Header { origin, len: FIXED + len }))
}

/// Whether it says whose connection this is.
fn command(byte: u8) -> Result<bool, HeaderError> {
    match (byte >> 4, byte & 0xf) {
        (2, 0) => Ok(false),
        (2, 1) => Ok(true),
        (2, command) => Err(HeaderError::Command(command)),
        (version, _) => Err(HeaderError::Version(version)),
    }
}

/// How many bytes the addresses of a family take; none where it or the transport is unspecified.
fn addresses_len(byte: u8) -> Result<usize, HeaderError> {
    match (byte >> 4, byte & 0xf) {
        (0..=3, 0) | (0, 1 | 2) => Ok(0),
        (1, 1 | 2) => Ok(V4_LEN),
        (2, 1 | 2) => Ok(V6_LEN),
        (3, 1 | 2) => Ok(UNIX_LEN),
        _ => Err(HeaderError::Family(byte)),
    }
}

fn v4_origin(block: &[u8]) -> Option<Origin> {
    let (source, rest) = block.split_first_chunk::<4>()?;
    let (destination, rest) = rest.split_first_chunk::<4>()?;
    let &[a, b, c, d, ..] = rest else { return None };
    let [source, destination] = [*source, *destination].map(|bits| IpAddr::V4(Ipv4Addr::from(bits)));
    Some(inet(source, u16::from_be_bytes([a, b]), destination, u16::from_be_bytes([c, d])))
}

fn v6_origin(block: &[u8]) -> Option<Origin> {
    let (source, rest) = block.split_first_chunk::<16>()?;
    let (destination, rest) = rest.split_first_chunk::<16>()?;
    let &[a, b, c, d, ..] = rest else { return None };
    let [source, destination] = [*source, *destination].map(|bits| IpAddr::V6(Ipv6Addr::from(bits)));
    Some(inet(source, u16::from_be_bytes([a, b]), destination, u16::from_be_bytes([c, d])))
}

fn inet(source: IpAddr, source_port: u16, destination: IpAddr, destination_port: u16) -> Origin {
    Origin::Inet {
        source: SocketAddr::new(source.to_canonical(), source_port),
        destination: SocketAddr::new(destination.to_canonical(), destination_port),
    }
}

/// Whether the bytes that are there are those of `start`.
fn begins(bytes: &[u8], start: &[u8]) -> bool {
    let n = bytes.len().min(start.len());
    bytes[..n] == start[..n]
}

/// The longest line of version 1, in bytes and with its end.
pub const MAX_LINE: usize = 107;
const LINE_START: &[u8] = b"PROXY ";
const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// The bytes of version 2 in front of the addresses.
const FIXED: usize = 16;
const V4_LEN: usize = 12;
const V6_LEN: usize = 36;
const UNIX_LEN: usize = 216;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn line(text: &str) -> Result<Option<Header>, HeaderError> {
        parse(text.as_bytes(), 4_096)
    }

    fn binary(version: u8, family: u8, block: &[u8]) -> Vec<u8> {
        let len = u16::try_from(block.len()).unwrap().to_be_bytes();
        [SIGNATURE, &[version, family], &len, block].concat()
    }

    fn of(source: &str, destination: &str) -> Origin {
        Origin::Inet { source: source.parse().unwrap(), destination: destination.parse().unwrap() }
    }

    const V4: [u8; 12] = [192, 0, 2, 1, 10, 0, 0, 1, 0xdc, 0x04, 0x1e, 0x61];

    #[test]
    fn lines_name_the_client() {
        let text = "PROXY TCP4 192.0.2.1 10.0.0.1 56324 7777\r\nrest";
        let expected = Header { origin: of("192.0.2.1:56324", "10.0.0.1:7777"), len: text.len() - 4 };
        assert_eq!(line(text), Ok(Some(expected)));
        let text = "PROXY TCP6 2001:db8::1 ::ffff:10.0.0.1 0 65535\r\n";
        let expected = Header { origin: of("[2001:db8::1]:0", "10.0.0.1:65535"), len: text.len() };
        assert_eq!(line(text), Ok(Some(expected)));
        for text in ["PROXY UNKNOWN\r\n", "PROXY UNKNOWN ffff::1 what ever\r\n"] {
            assert_eq!(line(text), Ok(Some(Header { origin: Origin::Proxy, len: text.len() })));
        }
    }

    #[test]
    fn lines_are_exact() {
        for text in [
            "PROXY \r\n",
            "PROXY TCP4\r\n",
            "PROXY TCP5 192.0.2.1 10.0.0.1 1 2\r\n",
            "PROXY tcp4 192.0.2.1 10.0.0.1 1 2\r\n",
            "PROXY TCP4 192.0.2.1 10.0.0.1 1\r\n",
            "PROXY TCP4 192.0.2.1 10.0.0.1 1 2 3\r\n",
            "PROXY TCP4 192.0.2.1 10.0.0.1 1 2 \r\n",
            "PROXY TCP4  192.0.2.1 10.0.0.1 1 2\r\n",
            "PROXY TCP4 192.0.2.01 10.0.0.1 1 2\r\n",
            "PROXY TCP4 192.0.2.256 10.0.0.1 1 2\r\n",
            "PROXY TCP4 ::1 10.0.0.1 1 2\r\n",
            "PROXY TCP6 192.0.2.1 10.0.0.1 1 2\r\n",
            "PROXY TCP6 fe80::1%eth0 ::1 1 2\r\n",
            "PROXY TCP4 192.0.2.1 10.0.0.1 01 2\r\n",
            "PROXY TCP4 192.0.2.1 10.0.0.1 +1 2\r\n",
            "PROXY TCP4 192.0.2.1 10.0.0.1 65536 2\r\n",
            "PROXY TCP4 192.0.2.1 10.0.0.1  2\r\n",
            "PROXY TCP4 192.0.2.1 10.0.0.1 1 2\r\r\n",
            "PROXY TCP4 192.0.2.1 10.0.0.1 1 2\n\r\n",
            "PROXY UNKNOWNS\r\n",
        ] {
            assert_eq!(line(text), Err(HeaderError::Line), "{text:?}");
        }
        for text in ["GET / HTTP/1.1\r\n", "proxy UNKNOWN\r\n", "PROXYUNKNOWN\r\n", "PO", "PROXX", "x"] {
            assert_eq!(line(text), Err(HeaderError::Missing), "{text:?}");
        }
    }

    #[test]
    fn a_line_without_an_end_is_not_waited_for_for_ever() {
        let endless = format!("PROXY UNKNOWN {}", "x".repeat(200));
        assert_eq!(line(&endless[..MAX_LINE - 1]), Ok(None));
        assert_eq!(line(&endless[..MAX_LINE]), Err(HeaderError::TooLong { max: MAX_LINE }));
        assert_eq!(line(&endless), Err(HeaderError::TooLong { max: MAX_LINE }));
        // A line feed alone ends nothing.
        assert_eq!(line("PROXY UNKNOWN\n"), Ok(None));
        let longest = format!("PROXY UNKNOWN {}\r\n", "x".repeat(MAX_LINE - 16));
        assert_eq!(line(&longest).unwrap().unwrap().len, MAX_LINE);
        let longer = format!("PROXY UNKNOWN {}\r\n", "x".repeat(MAX_LINE - 15));
        assert_eq!(line(&longer), Err(HeaderError::TooLong { max: MAX_LINE }));
    }

    #[test]
    fn binary_headers_name_the_client() {
        let header = |bytes: &[u8]| parse(bytes, 4_096).unwrap().unwrap();
        let bytes = binary(0x21, 0x11, &V4);
        let expected = Header { origin: of("192.0.2.1:56324", "10.0.0.1:7777"), len: 28 };
        assert_eq!(header(&bytes), expected);
        // Behind the addresses there may be more, which is skipped.
        let bytes = binary(0x21, 0x12, &[&V4[..], &[0x20, 0, 3, 1, 2, 3]].concat());
        assert_eq!(header(&[&bytes[..], b"rest"].concat()), Header { len: 34, ..expected });
        let mut block = [0; 36];
        (block[0], block[1], block[15], block[31], block[33], block[35]) = (0x20, 1, 1, 1, 80, 81);
        let origin = of("[2001::1]:80", "[::1]:81");
        assert_eq!(header(&binary(0x21, 0x21, &block)), Header { origin, len: 52 });
        assert_eq!(header(&binary(0x21, 0x31, &[7; 216])), Header { origin: Origin::Unix, len: 232 });
        // Of LOCAL, all else is ignored but its length.
        for (family, block) in [(0, &[][..]), (0x11, &V4), (0xff, &[1, 2, 3])] {
            let len = 16 + block.len();
            assert_eq!(header(&binary(0x20, family, block)), Header { origin: Origin::Proxy, len });
        }
        for unspecified in [0, 0x01, 0x02, 0x10, 0x20, 0x30] {
            assert_eq!(header(&binary(0x21, unspecified, &V4)).origin, Origin::Proxy, "{unspecified:#x}");
        }
    }

    #[test]
    fn a_mapped_client_is_its_ipv4_address() {
        let mut block = [0; 36];
        block[10..16].copy_from_slice(&[0xff, 0xff, 192, 0, 2, 1]);
        let header = parse(&binary(0x21, 0x21, &block), 4_096).unwrap().unwrap();
        assert_eq!(header.origin, of("192.0.2.1:0", "[::]:0"));
    }

    #[test]
    fn binary_headers_are_exact_and_bounded() {
        let error = |bytes: &[u8]| parse(bytes, 1_000).unwrap_err();
        assert_eq!(error(&binary(0x11, 0x11, &V4)), HeaderError::Version(1));
        assert_eq!(error(&binary(0x22, 0x11, &V4)), HeaderError::Command(2));
        for family in [0x40, 0x13, 0x03, 0xff] {
            assert_eq!(error(&binary(0x21, family, &V4)), HeaderError::Family(family));
        }
        let short = HeaderError::TooShort { len: 11, needed: 12 };
        assert_eq!(error(&binary(0x21, 0x11, &V4[..11])), short);
        // Nobody waits for what is longer than allowed.
        let fixed = &binary(0x21, 0x11, &[0; 985])[..16];
        assert_eq!(error(fixed), HeaderError::TooLong { max: 1_000 });
        assert_eq!(error(&[SIGNATURE, &[0x20, 0, 0xff, 0xff]].concat()), HeaderError::TooLong { max: 1_000 });
        let at_the_limit = binary(0x21, 0x11, &[0; 984]);
        assert_eq!(parse(&at_the_limit, 1_000).unwrap().unwrap().len, 1_000);
        // However low the limit is, a line passes.
        assert!(parse(&binary(0x21, 0x11, &V4), 0).is_ok());
    }

    fn any_header() -> impl Strategy<Value = Vec<u8>> {
        let bytes = |n| prop::collection::vec(any::<u8>(), 0..n);
        prop_oneof![
            bytes(300),
            "PROXY (TCP4|TCP6|UNKNOWN|)[ -~\r\n]{0,120}\r?\n?".prop_map(String::into_bytes),
            (any::<[u8; 4]>(), any::<[u8; 4]>(), any::<[u16; 2]>()).prop_map(|(a, b, [c, d])| {
                let [a, b] = [a, b].map(Ipv4Addr::from);
                format!("PROXY TCP4 {a} {b} {c} {d}\r\nrest").into_bytes()
            }),
            (prop_oneof![Just(0x20_u8), Just(0x21), any::<u8>()], any::<u8>(), bytes(300))
                .prop_map(|(version, family, block)| binary(version, family & 0x33, &block)),
            (any::<u8>(), bytes(40)).prop_map(|(n, tail)| {
                [&SIGNATURE[..usize::from(n).min(SIGNATURE.len())], &tail].concat()
            }),
        ]
    }

    proptest! {
        /// However the bytes come, the first answer is the last.
        #[test]
        fn any_cut_gives_the_same(bytes in any_header(), max in 0_usize..400) {
            let whole = parse(&bytes, max);
            for n in 0..=bytes.len() {
                match parse(&bytes[..n], max) {
                    Ok(None) => prop_assert!(!matches!(whole, Ok(Some(header)) if header.len <= n)),
                    decided => {
                        prop_assert_eq!(decided, whole);
                        if let Ok(Some(header)) = decided {
                            prop_assert!(header.len <= n && header.len <= max.max(MAX_LINE));
                        }
                    }
                }
            }
        }
    }
}
