//! What a client needs to know of a server: where it listens, and what it is recognised by.

use std::{fmt, net::SocketAddr, str::FromStr};

use crate::Error;

/// One listening server. As text, on the line that a server process writes when it is ready, it is the address and, if
/// there is something to trust, a slash and that in hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    /// What the server proves to own, in whatever form its peer uses; empty without encryption. Servers make theirs when
    /// they start, so that no secret lies in a file or on a command line.
    pub(crate) trust: Vec<u8>,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)?;
        if !self.trust.is_empty() {
            f.write_str("/")?;
        }
        self.trust.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for Target {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let (address, digits) = text.split_once('/').unwrap_or((text, ""));
        let byte = |pair: &[u8]| Ok(u8::from_str_radix(std::str::from_utf8(pair)?, 16)?);
        let trust = digits.as_bytes().chunks(2).map(byte).collect::<Result<_, Error>>()?;
        Ok(Self { address: address.parse()?, trust })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_read_as_it_was_written() {
        for trust in [&b""[..], b"\x00", b"one\ntwo \xff"] {
            let target = Target { address: ([127, 0, 0, 1], 4000).into(), trust: trust.into() };
            let text = target.to_string();
            assert!(!text.contains(char::is_whitespace), "{text}");
            assert_eq!(text.parse::<Target>().unwrap(), target);
        }
        assert!("127.0.0.1:4000/0g".parse::<Target>().is_err());
        assert!("127.0.0.1".parse::<Target>().is_err());
    }
}
