//! What can be set about whom a server lets in.

use std::time::Duration;

use super::Cidr;

/// Whom a server lets in, by address: [`ServerBuilder::guard`](crate::ServerBuilder::guard).
///
/// An address is what [`AddressKey`](nalix_core::limit::AddressKey) says: an IPv4 address, or a /64 of IPv6. Links without an
/// address are let in. See `docs/security.md`.
///
/// ```
/// let mut guard = nalix_server::GuardOptions::default();
/// guard.max_connections_per_address = 64;
/// guard.trusted_proxies = vec!["10.0.0.0/8".parse()?];
/// # Ok::<(), nalix_server::ParseCidrError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct GuardOptions {
    /// The only networks that are let in, unless it is empty. Default empty. It can be exchanged while the server runs:
    /// [`Guard::set_lists`](crate::Guard::set_lists).
    pub allow: Vec<Cidr>,
    /// Networks that are not let in, also if they are allowed. Default empty; can be exchanged, too.
    pub deny: Vec<Cidr>,
    /// Networks whose addresses are not counted, limited or banned by themselves: a load balancer without PROXY headers, an
    /// office. Default empty. The lists above, explicit bans and limits on all connections hold for them as for all.
    pub exempt: Vec<Cidr>,
    /// Whether the loopback addresses are among those. Default `true`.
    pub exempt_loopback: bool,
    /// How many links one address may have at once, those in the handshake included. Default 1,024.
    ///
    /// Too low turns clients away that share an address; too high lets one address take all places. Zero turns all away that
    /// are not exempt.
    pub max_connections_per_address: usize,
    /// How many links may come from one address each second, once [`connect_burst`](Self::connect_burst) is used up. Default 64;
    /// zero counts as one.
    ///
    /// Too low turns clients away that share an address and come back all at once; too high lets one address keep the
    /// server busy with handshakes.
    pub connects_per_second: u32,
    /// How many may come at once from an address after a pause. Default 1,024; zero counts as one.
    pub connect_burst: u32,
    /// How many connections of one address may be closed for a fault of their clients' within
    /// [`ban_window`](Self::ban_window): in the handshake or after it they broke the protocol, or sent more packets that do
    /// not decode than `max_malformed`. One more bans the address. Default 64. The largest number bans nobody.
    ///
    /// Too low bans everybody behind an address for the faults of one; too high lets an address try out malformed bytes at
    /// leisure. Zero bans at the first.
    pub ban_after: u32,
    /// In what time that many are forgiven, one by one. Default 60 s, at most 365 days. Zero forgives at once, so that nobody is
    /// banned.
    pub ban_window: Duration,
    /// How long such a ban lasts. Default 60 s. Connections that are open stay. Zero bans nobody.
    pub ban_time: Duration,
    /// About how many addresses are known at a time. Default 65,536, at least one for each of 64 shards. Known are those with
    /// links, those that have come too often lately or were at fault, and those that are banned; some 80 bytes each.
    ///
    /// While it is full, all further addresses share the limits of one, in each shard. Too low lets them get in each other's
    /// way; too high takes that much memory under attack.
    pub max_addresses: usize,
    /// How often an address is told for one cause why it is turned away; more often, its links are closed without a word.
    /// Default 1 s. Zero: always. Exempt addresses and links without an address always are.
    ///
    /// Too short costs time and memory under attack; too long leaves honest clients without advice.
    pub refusal_interval: Duration,
    /// Proxies that put a PROXY header (version 1 or 2) in front of each connection. Default empty. A link from one of these
    /// networks must begin with a header, and its client is the address in there. Anybody else is not asked for a header,
    /// and breaks the protocol if he sends one.
    ///
    /// Whoever can connect from these networks can take any address on.
    pub trusted_proxies: Vec<Cidr>,
    /// How long a header may take. Default 5 s. Zero closes every link from a proxy.
    pub proxy_timeout: Duration,
    /// How many bytes a header may have, at least 107. Default 4,096. What stands in it beside addresses is skipped.
    pub max_proxy_header: usize,
}

#[cfg(feature = "serde")]
nalix_core::__section!(GuardOptions {
    allow: |raw| nalix_core::config::list(raw),
    deny: |raw| nalix_core::config::list(raw),
    exempt: |raw| nalix_core::config::list(raw),
    exempt_loopback: |raw| nalix_core::config::flag(raw),
    max_connections_per_address: |raw| nalix_core::config::size(raw, 0, usize::MAX),
    connects_per_second: |raw| nalix_core::config::number(raw, 1, u32::MAX.into()).map(|n| n as u32),
    connect_burst: |raw| nalix_core::config::number(raw, 1, u32::MAX.into()).map(|n| n as u32),
    ban_after: |raw| nalix_core::config::number(raw, 0, u32::MAX.into()).map(|n| n as u32),
    ban_window: |raw| nalix_core::config::time(raw, Duration::ZERO).and_then(|window| {
        if window <= MAX_BAN_WINDOW { Ok(window) } else { Err("it is longer than 365 days".into()) }
    }),
    ban_time: |raw| nalix_core::config::time(raw, Duration::ZERO),
    max_addresses: |raw| nalix_core::config::size(raw, 0, usize::MAX),
    refusal_interval: |raw| nalix_core::config::time(raw, Duration::ZERO),
    trusted_proxies: |raw| nalix_core::config::list(raw),
    proxy_timeout: |raw| nalix_core::config::time(raw, Duration::ZERO),
    max_proxy_header: |raw| nalix_core::config::size(raw, 107, usize::MAX),
});

impl Default for GuardOptions {
    fn default() -> Self {
        Self {
            allow: Vec::new(),
            deny: Vec::new(),
            exempt: Vec::new(),
            exempt_loopback: true,
            max_connections_per_address: 1_024,
            connects_per_second: 64,
            connect_burst: 1_024,
            ban_after: 64,
            ban_window: Duration::from_secs(60),
            ban_time: Duration::from_secs(60),
            max_addresses: 65_536,
            refusal_interval: Duration::from_secs(1),
            trusted_proxies: Vec::new(),
            proxy_timeout: Duration::from_secs(5),
            max_proxy_header: 4_096,
        }
    }
}

/// The longest period of a [`Rate`](nalix_core::limit::Rate).
pub(super) const MAX_BAN_WINDOW: Duration = Duration::from_secs(365 * 86_400);
