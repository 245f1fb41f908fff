//! Whom a server lets in, by address: lists, limits and bans.

mod bans;
mod cidr;
mod front;
mod keyed_hash;
mod lists;
mod options;
mod refusal;
mod table;

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::{Duration, Instant},
};

use nalix_core::limit::AddressKey;

pub(crate) use self::front::{Fronted, front};
pub use self::{
    bans::{Ban, BanCause},
    cidr::{Cidr, ParseCidrError},
    options::GuardOptions,
    refusal::{Refusal, RefusalCause},
};
use self::{
    lists::{Lists, NetSet},
    refusal::{Counts, Told},
    table::{Denial, Slot, Table},
};

/// Whom a server lets in. A handle, cheap to clone, from [`ServerHandle::guard`](crate::ServerHandle::guard); a handler takes it
/// as [`State<Guard>`](crate::State).
///
/// ```
/// use std::time::Duration;
/// use nalix_server::{Guard, ServerHandle};
///
/// fn throw_out(server: &ServerHandle, address: std::net::IpAddr) {
///     if !server.guard().ban(address, Duration::from_secs(3_600)) {
///         println!("too many addresses are known to ban another");
///     }
///     // Whoever is inside stays unless told otherwise.
///     server.hub().close_address(address, &nalix_server::CloseReason::new(
///         nalix_server::CloseCode::LimitExceeded,
///         "banned",
///     ));
/// }
/// ```
#[derive(Debug, Clone)]
pub struct Guard {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    options: GuardOptions,
    lists: Lists,
    exempt: NetSet,
    proxies: NetSet,
    table: Table,
    told: Told,
    counts: Counts,
    start: Instant,
}

/// A link that was let in, until this is dropped.
#[derive(Debug)]
#[must_use = "dropping it counts the link out again"]
pub struct Admission<'a> {
    counted: Option<(&'a Table, Slot)>,
}

impl Guard {
    pub(crate) fn new(options: GuardOptions) -> Self {
        let inner = Inner {
            lists: Lists::new(options.allow.clone(), options.deny.clone()),
            exempt: NetSet::new(options.exempt.clone()),
            proxies: NetSet::new(options.trusted_proxies.clone()),
            table: Table::new(&options),
            told: Told::new(options.refusal_interval),
            counts: Counts::default(),
            start: now(),
            options,
        };
        Self { inner: Arc::new(inner) }
    }

    /// Counts a link from `address` in, if it may come. The server does so for its own listeners; this is for links that come
    /// in elsewhere, such as a side door over another protocol, and are to count with the others.
    ///
    /// # Errors
    /// [`Refusal`] if it is to be turned away. That changes nothing for the address.
    #[inline]
    pub fn admit(&self, address: IpAddr, now: Instant) -> Result<Admission<'_>, Refusal> {
        let inner = &*self.inner;
        let now = inner.at(now);
        let hashed = inner.table.hashed(AddressKey::of(address));
        let denial = if !inner.lists.admit(address) {
            None
        } else if inner.is_exempt(address) {
            match inner.table.banned(hashed, now) {
                None => return Ok(Admission { counted: None }),
                Some(left) => Some(Denial::Banned(left)),
            }
        } else {
            match inner.table.admit(hashed, now) {
                Ok(slot) => return Ok(Admission { counted: Some((&inner.table, slot)) }),
                Err(denial) => Some(denial),
            }
        };
        let (cause, retry_after) = match denial {
            None => (RefusalCause::Denied, None),
            Some(Denial::Banned(left)) => (RefusalCause::Banned, Some(Duration::from_nanos(left))),
            Some(Denial::TooMany) => (RefusalCause::TooManyFromAddress, None),
            Some(Denial::TooFast(retry_after)) => (RefusalCause::TooFastFromAddress, retry_after),
        };
        inner.counts.add(cause);
        let tell = inner.told.may(hashed.hash, cause, now);
        Err(Refusal { cause, retry_after, tell })
    }

    /// Bans an address, or the /64 of IPv6 that it is in, for so long from now on, in place of a ban that there may be.
    /// Connections that are open stay: [`Hub::close_address`](crate::Hub::close_address) closes them. Also addresses that
    /// are exempt are banned like this.
    ///
    /// Returns `false` if there is no room in the table: [`GuardOptions::max_addresses`] are known that cannot be
    /// forgotten.
    #[must_use = "there may be no room for it"]
    pub fn ban(&self, address: IpAddr, time: Duration) -> bool {
        self.inner.table.ban(self.inner.table.hashed(AddressKey::of(address)), time, self.inner.at(now()))
    }

    /// Ends a ban, and forgives what led to it. Returns whether there was one.
    pub fn lift(&self, address: IpAddr) -> bool {
        self.inner.table.lift(self.inner.table.hashed(AddressKey::of(address)), self.inner.at(now()))
    }

    /// How much longer an address is banned, if it is.
    pub fn banned(&self, address: IpAddr) -> Option<Duration> {
        let hashed = self.inner.table.hashed(AddressKey::of(address));
        self.inner.table.banned(hashed, self.inner.at(now())).map(Duration::from_nanos)
    }

    /// Who is banned, in no order.
    pub fn bans(&self) -> Vec<Ban> {
        let bans = self.inner.table.bans(self.inner.at(now())).into_iter();
        bans.map(|(address, left, cause)| Ban { address, left: Duration::from_nanos(left), cause }).collect()
    }

    /// Counts a fault of a client's against its address, as if its connection had been closed for breaking the protocol: too many
    /// ban it ([`GuardOptions::ban_after`]). Exempt addresses are not banned. Returns whether this has banned it.
    pub fn report_fault(&self, address: IpAddr) -> bool {
        let inner = &*self.inner;
        if inner.is_exempt(address) {
            return false;
        }
        let key = AddressKey::of(address);
        let banned = inner.table.fault(inner.table.hashed(key), inner.at(now()));
        if let Some(time) = banned {
            tracing::info!(address = %key, ?time, "an address is banned for faults of its clients'");
        }
        banned.is_some()
    }

    /// Exchanges the lists of networks that are allowed and denied, both at once. Connections that are open stay.
    pub fn set_lists(&self, allow: Vec<Cidr>, deny: Vec<Cidr>) {
        self.inner.lists.set(allow, deny);
    }

    /// The only networks that are let in, unless it is empty.
    pub fn allow_list(&self) -> Vec<Cidr> {
        self.inner.lists.current().allow.nets().to_vec()
    }

    /// The networks that are not let in.
    pub fn deny_list(&self) -> Vec<Cidr> {
        self.inner.lists.current().deny.nets().to_vec()
    }

    /// How many links were turned away for this cause since the server was built.
    pub fn refused(&self, cause: RefusalCause) -> u64 {
        self.inner.counts.of(cause)
    }

    /// How many links an address has, those in the handshake included. Those of exempt addresses are not counted, nor those
    /// of addresses for which there is no room.
    pub fn links_from(&self, address: IpAddr) -> usize {
        self.inner.table.links(self.inner.table.hashed(AddressKey::of(address)))
    }

    /// How many addresses are known, and a few that have not been forgotten yet.
    pub fn known_addresses(&self) -> usize {
        self.inner.table.len()
    }

    /// As [`Guard::admit`], for a link that may have no address, or speak for a proxy.
    pub(crate) fn admit_link(&self, origin: Origin) -> Result<Admission<'_>, Refusal> {
        match origin {
            Origin::Client(address) => self.admit(address.ip(), now()),
            Origin::Unknown | Origin::Proxy => Ok(Admission { counted: None }),
        }
    }

    /// As [`Guard::report_fault`]. A proxy is not banned for those behind it.
    pub(crate) fn report(&self, origin: Origin) {
        if let Origin::Client(address) = origin {
            self.report_fault(address.ip());
        }
    }

    /// Turns a link away for a cause that is not the guard's own.
    pub(crate) fn refuse(&self, origin: Origin, cause: RefusalCause) -> Refusal {
        let inner = &*self.inner;
        inner.counts.add(cause);
        let tell = match origin {
            Origin::Client(address) if !inner.is_exempt(address.ip()) => {
                let hashed = inner.table.hashed(AddressKey::of(address.ip()));
                inner.told.may(hashed.hash, cause, inner.at(now()))
            }
            _ => true,
        };
        Refusal { cause, retry_after: None, tell }
    }
}

impl Inner {
    #[inline]
    fn is_exempt(&self, address: IpAddr) -> bool {
        (self.options.exempt_loopback && address.to_canonical().is_loopback())
            || (!self.exempt.is_empty() && self.exempt.contains(address))
    }

    /// Nanoseconds since the start, for some five hundred years.
    #[inline]
    fn at(&self, now: Instant) -> u64 {
        let passed = now.saturating_duration_since(self.start);
        passed.as_secs().saturating_mul(1_000_000_000).saturating_add(u64::from(passed.subsec_nanos()))
    }
}

impl Drop for Admission<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some((table, slot)) = self.counted {
            table.release(slot);
        }
    }
}

/// An [`Admission`] that goes with its link.
#[derive(Debug)]
pub(crate) struct Seat {
    guard: Guard,
    slot: Option<Slot>,
}

impl Seat {
    /// `admission` must be the guard's.
    pub(crate) fn new(guard: &Guard, mut admission: Admission<'_>) -> Self {
        let slot = admission.counted.take().map(|(_, slot)| slot);
        Self { guard: guard.clone(), slot }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            self.guard.inner.table.release(slot);
        }
    }
}

/// Whose a link is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Nobody's with an address.
    Unknown,
    /// The client's at this address.
    Client(SocketAddr),
    /// A trusted proxy's own, or that of somebody whom it does not name.
    Proxy,
}

impl Origin {
    /// The client's address, if there is one.
    pub(crate) fn address(self) -> Option<SocketAddr> {
        match self {
            Origin::Client(address) => Some(address),
            Origin::Unknown | Origin::Proxy => None,
        }
    }
}

/// That of the runtime, which tests may stop.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
