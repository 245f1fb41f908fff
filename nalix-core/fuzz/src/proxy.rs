//! Headers that proxies put in front of connections: whatever the bytes, and however they are cut, there is one answer;
//! and what a header says is what was written.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use nalix_core::link::proxy_protocol::{Header, HeaderError, MAX_LINE, Origin, parse};

use crate::script::Script;

/// The first byte chooses what the others are taken as, the second how long a header may be.
pub fn proxy(input: &[u8]) {
    let Some((&[which, max], input)) = input.split_first_chunk() else { return };
    let max = usize::from(max) * 4;
    match which % 3 {
        0 => any(input, max),
        1 => any(&[b"\r\n\r\n\0\r\nQUIT\n", input].concat(), max),
        _ => written(input),
    }
}

/// The first answer is the last, and is within the limits.
fn any(bytes: &[u8], max: usize) {
    let whole = parse(bytes, max);
    let mut decided = None;
    for n in 0..=bytes.len() {
        let answer = parse(&bytes[..n], max);
        match (&decided, &answer) {
            (None, Ok(None)) => {}
            (None, _) => {
                assert_eq!(answer, whole, "the first {n} of {bytes:?}");
                decided = Some(n);
            }
            (Some(_), _) => assert_eq!(answer, whole),
        }
        if let Ok(Some(Header { len, .. })) = answer {
            assert!(len <= n && len <= max.max(MAX_LINE), "{len} of {n}");
            assert_eq!(decided, Some(len), "a header ends where it ends");
        }
    }
    // Nobody waits for more than may come.
    if bytes.len() >= max.max(MAX_LINE) {
        assert_ne!(whole, Ok(None));
    }
}

/// Both versions say the same of the same addresses.
fn written(input: &[u8]) {
    let mut script = Script::new(input);
    let v4 = script.byte() & 1 == 0;
    let mut address = || -> SocketAddr {
        let mut bits = [0; 16];
        bits.iter_mut().for_each(|byte| *byte = script.byte());
        let port = u16::from_be_bytes([script.byte(), script.byte()]);
        let ip = match v4 {
            true => IpAddr::V4(Ipv4Addr::new(bits[0], bits[1], bits[2], bits[3])),
            false => IpAddr::V6(Ipv6Addr::from(bits)),
        };
        SocketAddr::new(ip, port)
    };
    let (source, destination) = (address(), address());
    let family = if v4 { "TCP4" } else { "TCP6" };
    let line = format!(
        "PROXY {family} {} {} {} {}\r\n",
        source.ip(),
        destination.ip(),
        source.port(),
        destination.port()
    );
    let octets = |address: SocketAddr| match address.ip() {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let beside = script.bytes();
    let block = [
        &octets(source)[..],
        &octets(destination),
        &source.port().to_be_bytes(),
        &destination.port().to_be_bytes(),
        beside,
    ]
    .concat();
    let len = u16::try_from(block.len()).unwrap().to_be_bytes();
    let family = if v4 { 0x11 } else { 0x21 };
    let binary = [b"\r\n\r\n\0\r\nQUIT\n", &[0x21, family][..], &len, &block].concat();
    let plain = |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
    let origin = Origin::Inet { source: plain(source), destination: plain(destination) };
    for bytes in [line.as_bytes(), &binary] {
        let header = parse(bytes, 4_096).unwrap().unwrap();
        assert_eq!((header.origin, header.len), (origin, bytes.len()));
        any(bytes, 4_096);
    }
    // One bit elsewhere in the signature, and it is none.
    let mut changed = binary;
    changed[usize::from(script.byte()) % 12] ^= 1 << (script.byte() % 8);
    if changed.first() != Some(&b'P') {
        assert_eq!(parse(&changed, 4_096), Err(HeaderError::Missing));
    }
}
