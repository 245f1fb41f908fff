//! Addresses. Octets go in network order, as people write them; everything else is little-endian.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use super::{Decode, Encode, Reader, Writer};
use crate::error::{DecodeError, DecodeErrorKind};

impl Encode for Ipv4Addr {
    const FIXED_SIZE: Option<usize> = Some(4);

    fn encode(&self, w: &mut Writer<'_>) {
        w.put(&self.octets());
    }
}

impl<'de> Decode<'de> for Ipv4Addr {
    const MIN_SIZE: usize = 4;

    fn decode(r: &mut Reader<'de>) -> Result<Self, DecodeError> {
        r.array::<4>().map(Self::from)
    }
}

impl Encode for Ipv6Addr {
    const FIXED_SIZE: Option<usize> = Some(16);

    fn encode(&self, w: &mut Writer<'_>) {
        w.put(&self.octets());
    }
}

impl<'de> Decode<'de> for Ipv6Addr {
    const MIN_SIZE: usize = 16;

    fn decode(r: &mut Reader<'de>) -> Result<Self, DecodeError> {
        r.array::<16>().map(Self::from)
    }
}

impl Encode for SocketAddrV4 {
    const FIXED_SIZE: Option<usize> = Some(6);

    fn encode(&self, w: &mut Writer<'_>) {
        self.ip().encode(w);
        self.port().encode(w);
    }
}

impl<'de> Decode<'de> for SocketAddrV4 {
    const MIN_SIZE: usize = 6;

    fn decode(r: &mut Reader<'de>) -> Result<Self, DecodeError> {
        Ok(Self::new(Ipv4Addr::decode(r)?, u16::decode(r)?))
    }
}

impl Encode for SocketAddrV6 {
    const FIXED_SIZE: Option<usize> = Some(26);

    fn encode(&self, w: &mut Writer<'_>) {
        self.ip().encode(w);
        self.port().encode(w);
        self.flowinfo().encode(w);
        self.scope_id().encode(w);
    }
}

impl<'de> Decode<'de> for SocketAddrV6 {
    const MIN_SIZE: usize = 26;

    fn decode(r: &mut Reader<'de>) -> Result<Self, DecodeError> {
        Ok(Self::new(Ipv6Addr::decode(r)?, u16::decode(r)?, u32::decode(r)?, u32::decode(r)?))
    }
}

/// One of two families: a tag byte, then the address.
macro_rules! either_family {
    ($t:ident, $v4:ty, $v6:ty) => {
        impl Encode for $t {
            fn encode(&self, w: &mut Writer<'_>) {
                match self {
                    $t::V4(address) => {
                        w.put_u8(0);
                        address.encode(w);
                    }
                    $t::V6(address) => {
                        w.put_u8(1);
                        address.encode(w);
                    }
                }
            }

            fn size_hint(&self) -> usize {
                1 + match self {
                    $t::V4(address) => address.size_hint(),
                    $t::V6(address) => address.size_hint(),
                }
            }
        }

        impl<'de> Decode<'de> for $t {
            const MIN_SIZE: usize = 1 + <$v4>::MIN_SIZE;

            fn decode(r: &mut Reader<'de>) -> Result<Self, DecodeError> {
                match r.u8()? {
                    0 => <$v4>::decode(r).map($t::V4),
                    1 => <$v6>::decode(r).map($t::V6),
                    found => Err(DecodeErrorKind::UnknownVariant { found: found.into() }.into()),
                }
            }
        }
    };
}

either_family!(IpAddr, Ipv4Addr, Ipv6Addr);
either_family!(SocketAddr, SocketAddrV4, SocketAddrV6);
