//! What a connection's handles and its driver share, behind one short lock.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
    task::Waker,
    time::Duration,
};

use tokio::{sync::watch, time::Instant};

use super::{
    attributes::Attributes,
    budget::{Budget, StreamLimits},
    calls::Calls,
    commands::Commands,
    flows::Flows,
    kept::Addresses,
    latest::Latest,
    life::Life,
    number::Number,
    push::{Audience, Pushes},
    received::Received,
    resumption::Resumption,
    rtt::Rtt,
    standing::Standing,
    waiters::{Ticket, Waiters},
};
use crate::{
    handshake::{Kept, PublicKey, Sealing, Terms},
    link::{Transport, TryWrite},
    packet::Priority,
    session::Outbound,
    status::{CloseCode, CloseReason},
};

/// What is known of a connection when its handshake is done.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) number: Number,
    /// When the handshake was done.
    pub(crate) since: Instant,
    pub(crate) peer_addr: Option<SocketAddr>,
    pub(crate) local_addr: Option<SocketAddr>,
    pub(crate) transport: Transport,
    pub(crate) terms: Terms,
    /// The key that the peer has proven to have.
    pub(crate) peer_key: Option<PublicKey>,
    /// The session of the peer's that can be resumed.
    pub(crate) resumption: Option<Resumption>,
    /// A way to write without the driver.
    pub(crate) direct: Option<Arc<dyn TryWrite>>,
    /// Senders wait once this many bytes wait to be written.
    pub(crate) outbox: usize,
    /// Droppable packets are left out while this many bytes wait.
    pub(crate) drop_mark: usize,
    /// How many packets wait at once of which only the latest counts.
    pub(crate) max_latest: usize,
    /// How long a request waits for its answer unless it says otherwise.
    pub(crate) request_timeout: Option<Duration>,
    /// How many packets wait for a subscriber unless it says otherwise.
    pub(crate) push_queue: usize,
    /// What may be kept of streams.
    pub(crate) streams: StreamLimits,
    /// Who takes what the peer pushes, and whether they have nothing to wait for when the connection has ended.
    pub(crate) audience: Option<(Audience, bool)>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) setup: Setup,
    pub(super) attributes: Attributes,
    pub(super) standing: Standing,
    pub(crate) pushes: Arc<Pushes>,
    /// Whether subscriptions end with the connection.
    ends_pushes: bool,
    pub(super) life: watch::Sender<Life>,
    /// Whether the driver has bytes at hand that come before what is in the outbox. It sets this under the lock.
    pub(super) writing: AtomicBool,
    /// What the session is known by, if it outlives its links.
    pub(crate) kept: OnceLock<Kept>,
    /// How much of what the peer has sent has been handled.
    pub(crate) received: Received,
    /// Where the link comes from and leads to.
    pub(super) addresses: RwLock<Addresses>,
    /// Whether the connection is closed for something that the peer must not do.
    pub(super) at_fault: AtomicBool,
    /// Whether the driver has been woken for something that stands behind the lock. Most of its turns are for what has
    /// arrived, and need not look there first.
    called: AtomicBool,
    state: Mutex<State>,
}

/// What the lock protects. No user code but `Encode` runs while it is held, and nobody is woken.
#[derive(Debug)]
pub(super) struct State {
    pub(super) out: Outbound,
    /// What is appended to it last, when the driver takes it.
    pub(super) latest: Latest,
    /// How many droppable packets have been left out.
    pub(super) left_out: u64,
    pub(super) rtt: Option<Rtt>,
    pub(super) calls: Calls,
    pub(super) flows: Flows,
    pub(super) waiters: Waiters,
    /// Bytes that the driver has taken and the link does not take.
    pub(super) unsent: usize,
    outbox: usize,
    pub(super) direct: Option<Arc<dyn TryWrite>>,
    /// How many bytes have been written without the driver.
    pub(super) written: u64,
    driver: Option<Waker>,
    /// Whether the driver will look at the outbox anyway, so that it need not be woken.
    pub(super) awake: bool,
    /// Boxed, since there are none in nearly every turn.
    pub(super) commands: Option<Box<Commands>>,
    /// The earliest deadline that the driver has not been told of.
    pub(super) deadline: Option<Instant>,
    /// The earliest that it has been told of and not come back to, or is about to be told of. Most calls end long before
    /// theirs, and each has a later one than the call before: no news to the driver.
    pub(super) known_deadline: Option<Instant>,
    /// Somebody here has closed: nothing new is taken.
    pub(super) closing: Option<CloseReason>,
    /// The goodbye is in the outbox, and nothing comes behind it.
    sealed: bool,
    closed: Option<CloseReason>,
    /// How many calls were in flight at the end.
    pub(super) lost_calls: usize,
}

/// What the driver finds when it looks.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    pub(crate) commands: Option<Box<Commands>>,
    pub(crate) deadline: Option<Instant>,
    /// Whether several calls are in flight and frames wait: more are probably on their way, and a flush is better put
    /// off by one turn.
    pub(crate) busy: bool,
    /// Bytes that wait to be written.
    pub(crate) backlog: usize,
}

/// How things are when the driver has nothing more to do.
#[derive(Debug)]
pub(crate) struct Rest {
    /// Whether a command has come in meanwhile, and another turn is due.
    pub(crate) again: bool,
    /// Bytes that wait to be written.
    pub(crate) backlog: usize,
    /// Whether nothing more can be sealed, so that the connection is over.
    pub(crate) exhausted: bool,
    /// Whether there is more to take: fragments, or what waits for them.
    pub(crate) more: bool,
    /// The earliest deadline of the calls that are new since, if it is earlier than all others.
    pub(crate) deadline: Option<Instant>,
}

impl Shared {
    pub(crate) fn new(mut setup: Setup, out: Outbound) -> Self {
        let budget = Budget::new(setup.streams, setup.terms.window_in, setup.terms.calls_in);
        let state = State {
            out,
            latest: Latest::default(),
            left_out: 0,
            rtt: None,
            calls: Calls::new(setup.terms.calls_out),
            flows: Flows::new(budget),
            waiters: Waiters::default(),
            unsent: 0,
            outbox: setup.outbox,
            direct: setup.direct.take(),
            written: 0,
            driver: None,
            awake: true,
            commands: None,
            deadline: None,
            known_deadline: None,
            closing: None,
            sealed: false,
            closed: None,
            lost_calls: 0,
        };
        let (audience, ends_pushes) = setup.audience.take().unwrap_or_else(|| (Audience::new(), true));
        let pushes = Arc::clone(audience.pushes());
        Self {
            standing: Standing::new(setup.peer_key.as_ref(), setup.resumption.as_ref()),
            ends_pushes,
            kept: OnceLock::new(),
            received: Received::default(),
            addresses: RwLock::new((setup.peer_addr, setup.local_addr)),
            setup,
            attributes: Attributes::default(),
            pushes,
            life: watch::Sender::default(),
            writing: AtomicBool::new(false),
            at_fault: AtomicBool::new(false),
            called: AtomicBool::new(true),
            state: Mutex::new(state),
        }
    }

    #[inline]
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // A panic under the lock can only come from a user's `Encode`, and `Outbound` takes the half-written frame back.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether anything can be sealed.
    #[inline]
    pub(crate) fn is_secured(&self) -> bool {
        self.setup.terms.sealing != Sealing::None
    }

    /// Runs `f` under the lock and wakes the driver afterwards, if it asks for that and sleeps.
    pub(super) fn with<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let out = f(&mut state);
        let waker = self.wake_driver(&mut state);
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        out
    }

    /// Leaves the queue; one who was woken already hands the turn to the next.
    pub(super) fn leave_queue(&self, ticket: Ticket) {
        if !self.lock().waiters.remove(ticket) {
            self.pass_on();
        }
    }

    /// Hands a turn that was not used to the next.
    pub(super) fn pass_on(&self) {
        let next = self.lock().next_waiter();
        wake([next]);
    }

    pub(crate) fn close_reason(&self) -> Option<CloseReason> {
        self.lock().closed.clone()
    }

    /// The driver's waker, unless it looks anyway.
    pub(super) fn wake_driver(&self, state: &mut State) -> Option<Waker> {
        if std::mem::replace(&mut state.awake, true) {
            return None;
        }
        self.called.store(true, Ordering::Release);
        state.driver.clone()
    }

    // What the driver calls.

    /// Whether the driver was woken by a handle since it last asked, and has to look behind the lock.
    pub(crate) fn was_called(&self) -> bool {
        // It is read far more often than set.
        self.called.load(Ordering::Acquire) && self.called.swap(false, Ordering::AcqRel)
    }

    /// Looks at what has come in: until [`Shared::take_output`] finds nothing, nobody needs to wake the driver.
    pub(crate) fn look(&self, waker: &Waker) -> Turn {
        let mut state = self.lock();
        state.awake = true;
        if !state.driver.as_ref().is_some_and(|known| known.will_wake(waker)) {
            state.driver = Some(waker.clone());
        }
        Turn {
            commands: state.commands.take(),
            deadline: state.deadline.take(),
            busy: state.calls.in_flight() > 1 && !state.out.is_empty(),
            backlog: state.backlog(),
        }
    }

    /// Swaps what is to be written for `writing`, which is empty. Whoever appends something from now on wakes the driver.
    ///
    /// Little counts as sent already, so that it need not be reported; much still counts as waiting.
    pub(crate) fn take_output(&self, writing: &mut Vec<u8>) -> Rest {
        let mut state = self.lock();
        state.unsent = 0;
        state.settle_latest();
        if !state.sealed {
            let State { flows, out, .. } = &mut *state;
            flows.send_all(out);
        }
        if !state.out.is_empty() {
            self.writing.store(true, Ordering::Relaxed);
            *writing = state.out.take(std::mem::take(writing));
            state.note_completed();
            state.unsent = if writing.len() > state.outbox / 16 { writing.len() } else { 0 };
        }
        rest(state)
    }

    /// The link has taken everything that the driver had at hand.
    pub(crate) fn wrote_all(&self) {
        self.writing.store(false, Ordering::Release);
    }

    /// Writes what is in the outbox right here, if that is the request of a lone caller and the driver sleeps: waking it
    /// for this would take longer than the write. Returns whether the driver need not be woken.
    pub(super) fn write_directly(&self, state: &mut State) -> bool {
        let alone = state.calls.in_flight() == 1 && !state.awake;
        if alone && state.direct.is_some() {
            // The driver does not come by.
            state.deadline = state.date_calls().or(state.deadline);
        }
        let alone = alone && !state.has_commands();
        let Some(direct) = state.direct.as_ref().filter(|_| alone) else { return false };
        if self.writing.load(Ordering::Acquire) {
            return false;
        }
        self.received.tell_along(&mut state.out);
        let mut n = 0;
        // What it does not take, or fails with, is left to the driver.
        let all = state.out.write_with(|bytes| {
            n = direct.try_write(bytes).unwrap_or(0);
            n
        });
        state.written += n as u64;
        all
    }

    /// The link takes no more now, and `unsent` bytes of what was taken are left.
    pub(crate) fn blocked(&self, unsent: usize) -> Rest {
        let mut state = self.lock();
        state.unsent = unsent;
        rest(state)
    }

    /// Bytes that wait to be written.
    pub(crate) fn backlog(&self) -> usize {
        self.lock().backlog()
    }

    /// Bytes that wait to be written, those of large messages included.
    pub(crate) fn waiting_len(&self) -> usize {
        let state = self.lock();
        state.unsent + state.out.waiting_len() + state.flows.unsent()
    }

    /// Bytes that wait to be written, of what counts for this priority.
    pub(crate) fn backlog_for(&self, priority: Priority) -> usize {
        self.lock().backlog_for(priority)
    }

    /// The most bytes that wait to be written of what counts for any one priority.
    pub(crate) fn longest_backlog(&self) -> usize {
        let state = self.lock();
        state.unsent + state.out.longest_len() + state.flows.unsent()
    }

    /// Appends a frame of the driver's own, unless the goodbye has been said, and returns how many bytes wait to be
    /// written then. The driver takes them before it sleeps, so nobody needs to wake it.
    pub(crate) fn append(&self, f: impl FnOnce(&mut Outbound)) -> usize {
        let mut state = self.lock();
        state.awake = true;
        if !state.sealed {
            f(&mut state.out);
        }
        state.backlog()
    }

    /// Says goodbye: `f` appends it, as the last frame. Returns the reason that counts: that of whoever closed first.
    pub(crate) fn seal(
        &self,
        reason: CloseReason,
        f: impl FnOnce(&mut Outbound, &CloseReason),
    ) -> CloseReason {
        let mut wakers = Vec::new();
        let mut state = self.lock();
        let reason = state.closing.get_or_insert(reason).clone();
        if !state.sealed {
            let State { latest, flows, out, .. } = &mut *state;
            latest.append_all_to(out);
            flows.send_rest(out);
            if !matches!(reason.code, CloseCode::Normal | CloseCode::GoingAway) {
                state.out.drop_large();
            }
            f(&mut state.out, &reason);
            state.sealed = true;
        }
        state.waiters.all(&mut wakers);
        drop(state);
        for waker in wakers {
            waker.wake();
        }
        reason
    }

    /// How many of our calls the peer has not answered.
    pub(crate) fn in_flight(&self) -> usize {
        self.lock().calls.in_flight()
    }

    /// Ends everything: every waiter gets the same reason. The driver has handed `written` bytes to the link.
    pub(crate) fn end(&self, reason: &CloseReason, written: u64) {
        let mut wakers = Vec::new();
        let mut state = self.lock();
        state.closed = Some(reason.clone());
        state.driver = None;
        state.direct = None;
        state.latest.clear();
        state.commands = None;
        let written = written + state.written;
        state.lost_calls = state.calls.unanswered();
        state.calls.fail_all(written, &mut wakers);
        state.flows.fail_all(written, &mut wakers);
        state.waiters.all(&mut wakers);
        drop(state);
        self.life.send_modify(|life| life.closed = Some(reason.clone()));
        if self.ends_pushes {
            self.pushes.end();
        }
        for waker in wakers {
            waker.wake();
        }
    }
}

/// Wakes those who are there, to be called when the lock is gone.
pub(super) fn wake(wakers: impl IntoIterator<Item = Option<Waker>>) {
    for waker in wakers.into_iter().flatten() {
        waker.wake();
    }
}

/// Lets the driver sleep unless a command has come in, and wakes the first who waits for room.
fn rest(mut state: MutexGuard<'_, State>) -> Rest {
    let again = state.has_commands();
    state.awake = again;
    let backlog = state.backlog();
    let waiter = state.next_waiter();
    let exhausted = state.out.is_exhausted();
    let more = !state.out.is_empty() || !state.latest.is_empty() || state.flows.has_unsent();
    let deadline = state.date_calls();
    drop(state);
    if let Some(waiter) = waiter {
        waiter.wake();
    }
    Rest { again, backlog, exhausted, more, deadline }
}

impl State {
    /// Whether something of this priority may be sent now.
    #[inline]
    pub(super) fn has_room(&self, priority: Priority) -> bool {
        self.backlog_for(priority) < self.outbox
    }

    /// Bytes that wait to be written, of what counts for this priority.
    #[inline]
    pub(super) fn backlog_for(&self, priority: Priority) -> usize {
        self.unsent + self.out.len_for(priority) + self.flows.unsent()
    }

    /// Appends the packets of which only the latest counts, unless they have to wait.
    fn settle_latest(&mut self) {
        self.latest.append_to(&mut self.out);
    }

    /// Bytes that wait to be written.
    pub(super) fn backlog(&self) -> usize {
        self.unsent + self.out.len() + self.flows.unsent()
    }

    /// Why nothing new is taken, if that is so.
    pub(super) fn gone(&self) -> Option<&CloseReason> {
        self.closed.as_ref().or(self.closing.as_ref())
    }

    /// Why the connection has ended, if it has.
    pub(super) fn closed(&self) -> Option<&CloseReason> {
        self.closed.as_ref()
    }

    /// Whether a call can be made right now, of so many bytes if it goes in fragments.
    pub(super) fn can_call(&self, priority: Priority, large: usize) -> bool {
        self.has_room_for(priority, large) && !self.calls.is_full()
    }

    /// The first who waits, if it could go on now.
    pub(super) fn next_waiter(&mut self) -> Option<Waker> {
        if self.waiters.is_empty() {
            return None;
        }
        let room = Priority::ALL.map(|priority| self.has_room(priority));
        let Self { waiters, out, calls, .. } = self;
        waiters.next(!calls.is_full(), room, |len| out.has_large_room(len))
    }
}
