//! What of a client's address counts as the client.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

/// What limits by address go by: all of an IPv4 address, and the first 64 bits of an IPv6 address.
///
/// Ports do not count, since a client can take another at will, and neither do the last 64 bits of an IPv6 address, which
/// are usually all of one host's or household's. An IPv4 address in the form of an IPv6 address (`::ffff:192.0.2.1`), as
/// a socket for both kinds shows it, is the same key as without.
///
/// ```
/// use nalix_core::limit::AddressKey;
///
/// let of = |address: &str| AddressKey::of(address.parse().unwrap());
/// assert_eq!(of("192.0.2.1"), of("::ffff:192.0.2.1"));
/// assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
/// assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
/// assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AddressKey(u64);

impl AddressKey {
    /// The key of an address.
    #[inline]
    pub const fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self::v4(address),
            IpAddr::V6(address) => match address.to_ipv4_mapped() {
                Some(address) => Self::v4(address),
                None => Self((address.to_bits() >> 64) as u64),
            },
        }
    }

    /// Beside the IPv6 keys: the first 64 bits of what an IPv4 address is translated to never look like this, since
    /// `::/32` is not given to anybody.
    const fn v4(address: Ipv4Addr) -> Self {
        Self(V4 | address.to_bits() as u64)
    }

    /// The address itself, or the first of those that have this key.
    pub const fn first(self) -> IpAddr {
        if self.0 & !(u32::MAX as u64) == V4 {
            IpAddr::V4(Ipv4Addr::from_bits(self.0 as u32))
        } else {
            IpAddr::V6(Ipv6Addr::from_bits((self.0 as u128) << 64))
        }
    }
}

/// As the network that it stands for, such as `2001:db8::/64`.
impl fmt::Display for AddressKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.first() {
            IpAddr::V4(address) => address.fmt(f),
            IpAddr::V6(address) => write!(f, "{address}/64"),
        }
    }
}

impl fmt::Debug for AddressKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AddressKey({self})")
    }
}

/// What stands before an IPv4 address: the start of `0:ffff::/32`, where there are no hosts.
const V4: u64 = 0x0000_ffff << 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn of(address: &str) -> AddressKey {
        AddressKey::of(address.parse().unwrap())
    }

    #[test]
    fn a_client_has_one_key_on_every_socket() {
        assert_eq!(of("127.0.0.1"), of("::ffff:127.0.0.1"));
        assert_eq!(of("::ffff:7f00:1"), of("127.0.0.1"));
        assert_eq!(of("fe80::1"), of("fe80::2"));
    }

    #[test]
    fn mapped_addresses_are_not_one_client() {
        assert_ne!(of("::ffff:192.0.2.1"), of("::ffff:192.0.2.2"));
    }

    #[test]
    fn networks_of_64_bits_are_clients() {
        assert_eq!(of("2001:db8:1:2::"), of("2001:db8:1:2:ffff:ffff:ffff:ffff"));
        assert_ne!(of("2001:db8:1:2::"), of("2001:db8:1:3::"));
        // The loopback and what is not mapped are no IPv4 addresses.
        assert_ne!(of("::1"), of("0.0.0.1"));
        assert_ne!(of("::192.0.2.1"), of("192.0.2.1"));
        assert_ne!(of("64:ff9b::192.0.2.1"), of("192.0.2.1"));
    }

    #[test]
    fn they_are_shown_as_networks() {
        assert_eq!(of("::ffff:192.0.2.1").to_string(), "192.0.2.1");
        assert_eq!(format!("{:?}", of("2001:db8::1")), "AddressKey(2001:db8::/64)");
        assert_eq!(of("255.255.255.255").first(), "255.255.255.255".parse::<IpAddr>().unwrap());
        assert_eq!(of("::").to_string(), "::/64");
    }
}
