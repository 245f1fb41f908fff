//! What a handler asks of the calls that it is given.

use std::{fmt, sync::Arc, time::Duration};

use super::Context;
use crate::{
    limit::{BreakerOptions, Rate},
    link::Transport,
    permission::Permission,
    status::Status,
};

/// What a call must meet before its handler is run; by default, nothing. The keys of `#[packet(...)]` on handlers fill it in.
///
/// Size, transport and rate are checked when a packet arrives, the others when its turn comes, so that they see what earlier
/// packets have changed. None of them needs the packet decoded.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Policy {
    /// What the peer must be allowed at least, else `PermissionDenied`.
    pub permission: Option<Permission>,
    /// Any other condition.
    pub check: Option<Arc<dyn Check>>,
    /// How often it may be called, else `ResourceExhausted`.
    pub rate: Option<RatePolicy>,
    /// How many calls may run at once, else `ResourceExhausted`.
    pub concurrency: Option<ConcurrencyPolicy>,
    /// How long a call may take from its turn on, else `DeadlineExceeded`.
    pub timeout: Option<Duration>,
    /// Over which links its packet is taken, else `FailedPrecondition`. `None`: all.
    pub transports: Option<&'static [Transport]>,
    /// The longest packet that is taken, in bytes of its encoding, else `ResourceExhausted`.
    pub max_size: Option<usize>,
    /// After how many failures in a row it is not called for a while, but `Unavailable` is answered.
    pub breaker: Option<BreakerOptions>,
}

/// How often a handler may be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RatePolicy {
    /// How often, and how often at once.
    pub rate: Rate,
    /// How many tokens a call takes. Default 1.
    pub cost: u32,
    /// Who shares a bucket. Default [`RateKey::Session`].
    pub key: RateKey,
    /// How many keys have a bucket of their own at a time, as long as it is not full. Default 65,536; at least 32.
    ///
    /// Too low lets new clients share one bucket while there are many; too high lets a flood from many addresses take some
    /// 64 bytes for each.
    pub capacity: usize,
}

/// Who shares the bucket of a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum RateKey {
    /// The calls of one connection, or of one session over all its connections where sessions are kept. A client gets a
    /// new one by connecting anew, so this keeps honest clients in bounds rather than attackers out.
    #[default]
    Session,
    /// The calls of one user: what [`Connection::set_identity`](crate::Connection::set_identity) has said, else the key that
    /// the peer has proven to have, else its address.
    Identity,
    /// The calls from one address: see [`AddressKey`](crate::limit::AddressKey).
    Address,
}

/// How many calls of a handler may run at once, on all connections together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConcurrencyPolicy {
    /// So many; at least 1.
    pub at_once: usize,
    /// So many more may wait. Default 64.
    ///
    /// Too low refuses calls in every burst; too high lets them wait for longer than anyone is interested in the answer.
    pub queue: usize,
    /// How long one may wait. Default `None`: as long as its caller does.
    pub wait: Option<Duration>,
}

/// A condition on the peer, the connection, or the call, which is known without the packet.
///
/// Implemented by functions and closures of that form. It runs on the connection's task, so it must not block.
///
/// ```
/// use nalix_core::{Context, Status, packet, packet_controller};
///
/// struct Tenant(String);
///
/// fn has_tenant(ctx: &Context) -> Result<(), Status> {
///     match ctx.get::<Tenant>() {
///         Some(_) => Ok(()),
///         None => Err(Status::permission_denied("choose a tenant first")),
///     }
/// }
///
/// #[packet(opcode = 0x1f21, reply = u32)]
/// struct Count;
///
/// struct Shop;
///
/// #[packet_controller]
/// impl Shop {
///     #[packet(check = has_tenant)]
///     fn count(&self, _: Count) -> u32 {
///         7
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a check",
    label = "not a check",
    note = "a check is a `fn(&Context) -> Result<(), Status>`, or a value whose type implements `Check`"
)]
pub trait Check: Send + Sync + 'static {
    /// Lets the call pass, or says how it is answered.
    ///
    /// # Errors
    /// The answer.
    fn check(&self, ctx: &Context) -> Result<(), Status>;
}

impl<F: Fn(&Context) -> Result<(), Status> + Send + Sync + 'static> Check for F {
    fn check(&self, ctx: &Context) -> Result<(), Status> {
        self(ctx)
    }
}

impl RatePolicy {
    /// This rate for each session, where a call takes one token.
    pub const fn new(rate: Rate) -> Self {
        Self { rate, cost: 1, key: RateKey::Session, capacity: 65_536 }
    }

    /// Sets how many tokens a call takes.
    #[must_use]
    pub const fn cost(mut self, cost: u32) -> Self {
        self.cost = cost;
        self
    }

    /// Sets who shares a bucket.
    #[must_use]
    pub const fn key(mut self, key: RateKey) -> Self {
        self.key = key;
        self
    }

    /// Sets how many keys have a bucket of their own.
    #[must_use]
    pub const fn capacity(mut self, capacity: usize) -> Self {
        self.capacity = capacity;
        self
    }
}

impl ConcurrencyPolicy {
    /// So many at once.
    pub const fn new(at_once: usize) -> Self {
        Self { at_once, queue: 64, wait: None }
    }

    /// Sets how many more may wait.
    #[must_use]
    pub const fn queue(mut self, queue: usize) -> Self {
        self.queue = queue;
        self
    }

    /// Sets how long one may wait.
    #[must_use]
    pub const fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }
}

impl Policy {
    /// Asks for a permission: of several, the highest counts.
    #[must_use]
    pub fn permission(mut self, permission: Permission) -> Self {
        self.permission = Permission::max_of(self.permission, Some(permission));
        self
    }

    /// Adds a condition. There is one: another takes its place.
    #[must_use]
    pub fn check(mut self, check: impl Check) -> Self {
        self.check = Some(Arc::new(check));
        self
    }

    /// Bounds how often it is called.
    #[must_use]
    pub fn rate(mut self, rate: RatePolicy) -> Self {
        self.rate = Some(rate);
        self
    }

    /// Bounds how many calls run at once.
    #[must_use]
    pub fn concurrency(mut self, concurrency: ConcurrencyPolicy) -> Self {
        self.concurrency = Some(concurrency);
        self
    }

    /// Bounds how long a call takes.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Says over which links its packet is taken.
    #[must_use]
    pub fn transports(mut self, transports: &'static [Transport]) -> Self {
        self.transports = Some(transports);
        self
    }

    /// Bounds the length of its packet: of several bounds, the lowest counts.
    #[must_use]
    pub fn max_size(mut self, max_size: usize) -> Self {
        self.max_size = Some(self.max_size.map_or(max_size, |other| other.min(max_size)));
        self
    }

    /// Has it left alone for `cool_down` after so many failures in a row.
    #[must_use]
    pub fn breaker(mut self, failures: u32, cool_down: Option<Duration>) -> Self {
        let mut options = BreakerOptions { failures, ..BreakerOptions::default() };
        options.cool_down = cool_down.unwrap_or(options.cool_down);
        self.breaker = Some(options);
        self
    }

    /// Whether it asks for nothing.
    pub fn is_empty(&self) -> bool {
        let Self { permission, check, rate, concurrency, timeout, transports, max_size, breaker } = self;
        permission.is_none()
            && check.is_none()
            && rate.is_none()
            && concurrency.is_none()
            && timeout.is_none()
            && transports.is_none()
            && max_size.is_none()
            && breaker.is_none()
    }
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policy")
            .field("permission", &self.permission)
            .field("check", &self.check.as_ref().map(|_| "..."))
            .field("rate", &self.rate)
            .field("concurrency", &self.concurrency)
            .field("timeout", &self.timeout)
            .field("transports", &self.transports)
            .field("max_size", &self.max_size)
            .field("breaker", &self.breaker)
            .finish()
    }
}
