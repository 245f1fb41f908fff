//! Who is banned.

use std::time::Duration;

use nalix_core::limit::AddressKey;

/// An address that is not let in for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ban {
    /// Which one: an IPv4 address, or a /64 of IPv6.
    pub address: AddressKey,
    /// How much longer.
    pub left: Duration,
    /// Why.
    pub cause: BanCause,
}

/// Why an address is banned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum BanCause {
    /// Too many of its connections were closed for faults of their clients':
    /// [`GuardOptions::ban_after`](crate::GuardOptions::ban_after).
    Faults,
    /// By [`Guard::ban`](crate::Guard::ban).
    #[default]
    Explicit,
}
