//! What stands between a call and a handler with a policy.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use super::{Context, HandlerSpec, Policy, RateLimiter, ReplyKind};
use crate::{
    Connection,
    limit::{Breaker, Levels, Places},
    status::{Advice, Code, Status},
};

/// A policy and what it counts. One for each handler that has a policy, on all connections.
#[derive(Debug)]
pub(crate) struct Guard {
    policy: Policy,
    name: &'static str,
    start: Instant,
    limiter: Option<RateLimiter>,
    places: Option<Places>,
    breaker: Option<Breaker>,
    /// When the next refusal of a one-way packet is worth a line in the log, in nanoseconds since the start.
    next_line: AtomicU64,
    unlogged: AtomicU64,
}

/// Why a packet is refused when it arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    Transport,
    Size { max: usize },
    Rate { retry_after: Option<Duration> },
}

/// How the way to the handler is.
pub(super) enum Way {
    Free(Option<Held>),
    /// The call has to wait.
    Taken,
    Refused(Status),
}

impl Guard {
    /// `None` for a handler without a policy.
    pub(super) fn of(spec: &HandlerSpec) -> Option<Arc<Self>> {
        let policy = &spec.policy;
        if policy.is_empty() {
            return None;
        }
        let start = now();
        Some(Arc::new(Self {
            policy: policy.clone(),
            name: spec.name,
            start,
            limiter: policy.rate.map(|rate| RateLimiter::new(rate, start)),
            places: policy.concurrency.map(|places| Places::new(places.at_once, places.queue)),
            breaker: policy.breaker.map(Breaker::new),
            next_line: AtomicU64::new(0),
            unlogged: AtomicU64::new(0),
        }))
    }

    /// Whether it has a bucket for each connection.
    pub(super) fn is_rated(&self) -> bool {
        self.limiter.is_some()
    }

    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.policy.timeout
    }

    /// Checks what is known when a packet has arrived. `levels` are the connection's own buckets, of which number `at` is
    /// this one's.
    #[inline]
    pub(crate) fn admit(
        &self,
        at: usize,
        connection: &Connection,
        len: usize,
        levels: &mut Levels,
        now: impl FnOnce() -> Instant,
    ) -> Result<(), Refusal> {
        if let Some(transports) = self.policy.transports
            && !transports.contains(&connection.transport())
        {
            return Err(Refusal::Transport);
        }
        if let Some(max) = self.policy.max_size
            && len > max
        {
            return Err(Refusal::Size { max });
        }
        let Some(limiter) = &self.limiter else { return Ok(()) };
        let taken = if limiter.is_own(connection) {
            let policy = limiter.policy();
            levels.take(at, &policy.rate, policy.cost, self.start, now())
        } else {
            limiter.take(connection, now())
        };
        taken.map_err(|refused| Refusal::Rate { retry_after: refused.retry_after })
    }

    /// Checks what earlier calls may have changed.
    #[inline]
    pub(super) fn permit(&self, context: &Context) -> Result<(), Status> {
        if let Some(required) = self.policy.permission {
            let has = context.connection().permission();
            if has < required {
                return Err(denied(context.connection()));
            }
        }
        match &self.policy.check {
            Some(check) => check.check(context),
            None => Ok(()),
        }
    }

    /// Goes in, if that is possible at once.
    #[inline]
    pub(super) fn enter(self: &Arc<Self>) -> Way {
        if let Some(places) = &self.places
            && !places.try_take()
        {
            return match places.is_queue_full() {
                true => Way::Refused(crowded()),
                false => Way::Taken,
            };
        }
        match self.inside() {
            Ok(held) => Way::Free(held),
            Err(status) => Way::Refused(status),
        }
    }

    /// Waits for its turn. Cancel safe: dropping the future leaves the queue.
    pub(super) async fn wait(self: Arc<Self>) -> Result<Option<Held>, Status> {
        if let Some(places) = &self.places {
            let wait = self.policy.concurrency.and_then(|concurrency| concurrency.wait);
            let taken = match wait {
                Some(wait) => tokio::time::timeout(wait, places.take()).await.map_err(|_| crowded())?,
                None => places.take().await,
            };
            taken.map_err(|_| crowded())?;
        }
        self.inside()
    }

    /// A place has been taken, if there are places.
    #[inline]
    fn inside(self: &Arc<Self>) -> Result<Option<Held>, Status> {
        if self.places.is_none() && self.breaker.is_none() {
            return Ok(None);
        }
        // Gives the place back, too, if the breaker is open.
        let mut held = Held { guard: Arc::clone(self), trying: None };
        if let Some(breaker) = &self.breaker {
            match breaker.enter(now) {
                Ok(trying) => held.trying = Some(trying),
                Err(after) => return Err(broken(after)),
            }
        }
        Ok(Some(held))
    }

    /// A call was stopped since it took longer than the policy's timeout.
    pub(crate) fn overdue(&self, now: Instant) {
        if let Some(breaker) = &self.breaker {
            breaker.fail(now);
        }
    }

    /// Notes that a one-way packet was refused, of which nobody is told. One line in a second is enough.
    #[cold]
    pub(crate) fn note_refused(&self, refusal: Refusal, now: Instant) {
        let passed = now.saturating_duration_since(self.start).as_nanos() as u64;
        let due = self.next_line.load(Relaxed);
        let next = passed.saturating_add(QUIET.as_nanos() as u64);
        if passed < due || self.next_line.compare_exchange(due, next, Relaxed, Relaxed).is_err() {
            self.unlogged.fetch_add(1, Relaxed);
            return;
        }
        let earlier = self.unlogged.swap(0, Relaxed);
        let status = refusal.status();
        tracing::debug!(handler = self.name, %status, earlier, "one-way packets are refused");
    }
}

impl Refusal {
    /// What the caller is told.
    #[cold]
    pub(crate) fn status(self) -> Status {
        match self {
            Refusal::Transport => {
                let message = "this packet is not taken over this kind of link";
                Status::failed_precondition(message).with_advice(Advice::GiveUp)
            }
            Refusal::Size { max } => {
                let message = format!("this packet is taken up to {max} bytes");
                Status::new(Code::ResourceExhausted, message).with_advice(Advice::GiveUp)
            }
            Refusal::Rate { retry_after } => too_often(retry_after),
        }
    }
}

/// What is held from the start of a call until its answer, or until it is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    guard: Arc<Guard>,
    /// Set while the breaker waits for how the call ends: whether it is the one that tries.
    trying: Option<bool>,
}

impl Held {
    /// The call has been answered.
    pub(super) fn settle(mut self, answer: &ReplyKind) {
        self.report(succeeded(answer));
    }

    fn report(&mut self, success: Option<bool>) {
        if let (Some(trying), Some(breaker)) = (self.trying.take(), &self.guard.breaker) {
            breaker.settle(trying, success, now);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // Either the handler has panicked, or its caller does not want it any more, which says nothing of it.
        self.report(std::thread::panicking().then_some(false));
        if let Some(places) = &self.guard.places {
            places.give_back();
        }
    }
}

/// Whether an answer speaks for the handler; `None` if it has not come so far.
fn succeeded(answer: &ReplyKind) -> Option<bool> {
    let ReplyKind::Status(status) = answer else { return Some(true) };
    match status.code {
        Code::Internal | Code::Unavailable | Code::DataLoss | Code::DeadlineExceeded => Some(false),
        Code::Malformed | Code::Cancelled => None,
        _ => Some(true),
    }
}

/// What a caller is told that may not call this.
#[cold]
pub fn denied(connection: &Connection) -> Status {
    let status = Status::permission_denied("this peer may not do this");
    match connection.permission() == crate::Permission::NONE {
        true => status.with_advice(Advice::Authenticate),
        false => status,
    }
}

/// What a caller is told that calls too often.
#[cold]
pub fn too_often(retry_after: Option<Duration>) -> Status {
    let message = "too many of this packet";
    match retry_after {
        // Whole milliseconds travel: rounded down, it would come too early.
        Some(after) => {
            let millis = u64::try_from(after.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
            Status::resource_exhausted(message, Some(Duration::from_millis(millis)))
        }
        None => Status::new(Code::ResourceExhausted, message).with_advice(Advice::GiveUp),
    }
}

/// What a caller is told that finds no place.
#[cold]
pub fn crowded() -> Status {
    Status::resource_exhausted("too many calls at once", None)
}

#[cold]
fn broken(after: Duration) -> Status {
    let message = "this has failed too often, and is left alone for a while";
    Status::unavailable(message).with_advice(Advice::Retry { after: Some(after) })
}

/// The runtime's time, which stands still in tests.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// How far apart the lines about refused one-way packets are.
const QUIET: Duration = Duration::from_secs(1);
