//! Networks, as they are written.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

use thiserror::Error;

/// A network of IP addresses in CIDR notation (RFC 4632): `192.0.2.0/24`, `2001:db8::/32`, or a single address.
///
/// IPv4 in the form of IPv6 (`::ffff:192.0.2.0/120`) is IPv4, as everywhere in this library; so `::/0` holds no IPv4
/// address, and both `0.0.0.0/0` and `::/0` are needed to name them all.
///
/// ```
/// use nalix_server::Cidr;
///
/// let net: Cidr = "192.0.2.0/24".parse()?;
/// assert!(net.contains("192.0.2.77".parse()?) && !net.contains("192.0.3.1".parse()?));
/// assert!(net.contains("::ffff:192.0.2.1".parse()?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cidr {
    first: IpAddr,
    prefix: u8,
}

/// Why there is no such network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParseCidrError {
    /// It is not an address, alone or with a prefix length.
    #[error("a network is an address, such as 192.0.2.1, or one with a prefix length, such as 192.0.2.0/24")]
    Form,
    /// The prefix is longer than the address.
    #[error("the prefix of {0} is at most {max} bits long", max = bits(*.0))]
    Prefix(IpAddr),
    /// The address has bits beyond the prefix, so that it is not clear what is meant.
    #[error("an address of the network, or all of it? write the address alone, or {0}")]
    HostBits(Cidr),
}

impl Cidr {
    /// The network of all addresses that begin with the first `prefix` bits of `first`.
    ///
    /// # Errors
    /// [`ParseCidrError`] if the prefix is too long, or `first` is not the first of them.
    pub fn new(first: IpAddr, prefix: u8) -> Result<Self, ParseCidrError> {
        if prefix > bits(first) {
            return Err(ParseCidrError::Prefix(first));
        }
        let net = match first {
            IpAddr::V6(address) if prefix >= 96 && address.to_ipv4_mapped().is_some() => {
                Self { first: first.to_canonical(), prefix: prefix - 96 }
            }
            _ => Self { first, prefix },
        };
        let masked = Self { first: net.masked(), ..net };
        if masked == net { Ok(net) } else { Err(ParseCidrError::HostBits(masked)) }
    }

    /// The first of its addresses.
    pub fn first(self) -> IpAddr {
        self.first
    }

    /// How many bits its addresses have in common.
    pub fn prefix(self) -> u8 {
        self.prefix
    }

    /// Whether an address is in it.
    pub fn contains(self, address: IpAddr) -> bool {
        let (low, high) = self.range();
        let (is_v4, n) = number(address);
        is_v4 == self.first.is_ipv4() && low <= n && n <= high
    }

    /// Its first and last address, as numbers of its kind.
    pub(super) fn range(self) -> (u128, u128) {
        let (_, low) = number(self.first);
        (low, low | self.host_mask())
    }

    fn masked(self) -> IpAddr {
        match self.first {
            IpAddr::V4(address) => {
                IpAddr::V4(Ipv4Addr::from_bits(address.to_bits() & !(self.host_mask() as u32)))
            }
            IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !self.host_mask())),
        }
    }

    /// Ones where its addresses differ.
    fn host_mask(self) -> u128 {
        let host_bits = u32::from(bits(self.first) - self.prefix);
        u128::MAX.checked_shr(128 - host_bits).unwrap_or(0)
    }
}

impl From<IpAddr> for Cidr {
    /// The network of this address alone.
    fn from(address: IpAddr) -> Self {
        let first = address.to_canonical();
        Self { first, prefix: bits(first) }
    }
}

impl FromStr for Cidr {
    type Err = ParseCidrError;

    fn from_str(text: &str) -> Result<Self, ParseCidrError> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let first: IpAddr = address.parse().map_err(|_| ParseCidrError::Form)?;
        let Some(prefix) = prefix else { return Ok(first.into()) };
        if prefix.is_empty() || prefix.len() > 3 || !prefix.bytes().all(|c| c.is_ascii_digit()) {
            return Err(ParseCidrError::Form);
        }
        Self::new(first, prefix.parse().map_err(|_| ParseCidrError::Prefix(first))?)
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.prefix == bits(self.first) {
            self.first.fmt(f)
        } else {
            write!(f, "{}/{}", self.first, self.prefix)
        }
    }
}

impl fmt::Debug for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// An address as a number, and whether it is one of IPv4.
pub(super) fn number(address: IpAddr) -> (bool, u128) {
    match address.to_canonical() {
        IpAddr::V4(address) => (true, address.to_bits().into()),
        IpAddr::V6(address) => (false, address.to_bits()),
    }
}

fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net(text: &str) -> Cidr {
        text.parse().unwrap()
    }

    #[test]
    fn networks_hold_what_begins_like_them() {
        for (text, inside, outside) in [
            ("10.0.0.0/8", "10.255.255.255", "11.0.0.0"),
            ("10.1.2.3", "::ffff:10.1.2.3", "10.1.2.2"),
            ("0.0.0.0/0", "255.255.255.255", "::1"),
            ("::/0", "ffff::", "0.0.0.0"),
            ("::/0", "::1", "::ffff:1.2.3.4"),
            ("2001:db8::/33", "2001:db8:7fff:ffff::", "2001:db8:8000::"),
            ("::ffff:10.0.0.0/104", "10.9.9.9", "11.0.0.0"),
            ("192.0.2.4/31", "192.0.2.5", "192.0.2.6"),
        ] {
            let net = net(text);
            assert!(net.contains(inside.parse().unwrap()), "{text} {inside}");
            assert!(!net.contains(outside.parse().unwrap()), "{text} {outside}");
        }
    }

    #[test]
    fn they_are_written_as_they_are_read() {
        for text in ["10.0.0.0/8", "10.1.2.3", "0.0.0.0/0", "::/0", "2001:db8::/33", "::1"] {
            assert_eq!(net(text).to_string(), text);
        }
        assert_eq!(net("::ffff:10.0.0.0/104").to_string(), "10.0.0.0/8");
        assert_eq!(net("10.1.2.3/32"), net("::ffff:10.1.2.3"));
    }

    #[test]
    fn what_is_unclear_is_refused() {
        for text in
            ["", "10.0.0", "10.0.0.0/", "10.0.0.0/x", "10.0.0.0/-1", "10.0.0.0/+8", "10.0.0.0/0008", "a/8"]
        {
            assert_eq!(text.parse::<Cidr>(), Err(ParseCidrError::Form), "{text:?}");
        }
        for text in ["10.0.0.0/33", "::/129", "::/999"] {
            assert!(matches!(text.parse::<Cidr>(), Err(ParseCidrError::Prefix(_))), "{text:?}");
        }
        assert_eq!("10.0.0.1/8".parse::<Cidr>(), Err(ParseCidrError::HostBits(net("10.0.0.0/8"))));
        assert_eq!("2001:db8::1/64".parse::<Cidr>(), Err(ParseCidrError::HostBits(net("2001:db8::/64"))));
    }
}
