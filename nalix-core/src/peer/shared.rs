//! What a connection's handles and its driver share, behind one short lock.

use std::{
    net::SocketAddr,
    sync::{Mutex, MutexGuard, PoisonError},
    task::Waker,
    time::Duration,
};

use tokio::{sync::watch, time::Instant};

use super::{
    attributes::Attributes,
    calls::{Answer, Calls},
    waiters::Waiters,
};
use crate::{CallId, ConnectionId, handshake::Terms, session::Outbound, status::CloseReason};

/// What is known of a connection when its handshake is done.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) id: ConnectionId,
    pub(crate) peer_addr: Option<SocketAddr>,
    pub(crate) local_addr: Option<SocketAddr>,
    pub(crate) terms: Terms,
    /// Senders wait once this many bytes wait to be written.
    pub(crate) outbox: usize,
    /// How long a request waits for its answer unless it says otherwise.
    pub(crate) request_timeout: Option<Duration>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) setup: Setup,
    pub(super) attributes: Attributes,
    pub(super) closed: watch::Sender<Option<CloseReason>>,
    state: Mutex<State>,
}

/// What the lock protects. No user code but `Encode` runs while it is held, and nobody is woken.
#[derive(Debug)]
pub(super) struct State {
    pub(super) out: Outbound,
    pub(super) calls: Calls,
    pub(super) waiters: Waiters,
    /// Bytes that the driver has taken and not written yet.
    unsent: usize,
    outbox: usize,
    driver: Option<Waker>,
    /// Whether the driver will look at the outbox anyway, so that it need not be woken.
    awake: bool,
    commands: Commands,
    /// The earliest deadline that the driver has not been told of.
    deadline: Option<Instant>,
    pub(super) closed: Option<CloseReason>,
}

/// What handles ask of the driver.
#[derive(Debug, Default)]
struct Commands {
    close: Option<CloseReason>,
    drain: Option<Duration>,
    serve: bool,
}

/// What the driver finds when it looks.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    pub(crate) close: Option<CloseReason>,
    pub(crate) drain: Option<Duration>,
    pub(crate) serve: bool,
    pub(crate) deadline: Option<Instant>,
    /// Whether several calls are in flight and frames wait: more are probably on their way, and a flush is better put
    /// off by one turn.
    pub(crate) busy: bool,
}

/// What the driver gets when it asks for bytes to write.
#[derive(Debug)]
pub(crate) enum Output {
    /// These.
    Bytes(Vec<u8>),
    /// None; whoever appends some will wake the driver.
    Nothing(Vec<u8>),
    /// None, but a command has come in meanwhile: another turn is due.
    Again(Vec<u8>),
}

impl Shared {
    pub(crate) fn new(setup: Setup) -> Self {
        let state = State {
            out: Outbound::new(setup.terms.max_message),
            calls: Calls::new(setup.terms.calls_out),
            waiters: Waiters::default(),
            unsent: 0,
            outbox: setup.outbox,
            driver: None,
            awake: true,
            commands: Commands::default(),
            deadline: None,
            closed: None,
        };
        Self {
            setup,
            attributes: Attributes::default(),
            closed: watch::Sender::new(None),
            state: Mutex::new(state),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // A panic under the lock can only come from a user's `Encode`, and `Outbound` takes the half-written frame back.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `f` under the lock and wakes the driver afterwards, if it asks for that and sleeps.
    pub(super) fn with<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let out = f(&mut state);
        let waker = state.wake_driver();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        out
    }

    /// Asks the driver to say goodbye and close. The first reason counts.
    pub(crate) fn request_close(&self, reason: CloseReason) {
        self.with(|state| {
            state.commands.close.get_or_insert(reason);
        });
    }

    /// Asks the driver to finish what runs, to start nothing new, and to close within the given time.
    pub(crate) fn request_drain(&self, within: Duration) {
        self.with(|state| {
            state.commands.drain = Some(within);
        });
    }

    /// Tells the driver that its router has been replaced.
    pub(crate) fn router_changed(&self) {
        self.with(|state| {
            state.commands.serve = true;
        });
    }

    pub(crate) fn close_reason(&self) -> Option<CloseReason> {
        self.lock().closed.clone()
    }

    // What the driver calls.

    /// Starts a turn of the driver: until [`Shared::take_output`] finds nothing, nobody needs to wake it.
    pub(crate) fn begin_turn(&self, waker: &Waker) -> Turn {
        let mut state = self.lock();
        state.awake = true;
        match &mut state.driver {
            Some(known) if known.will_wake(waker) => {}
            driver => *driver = Some(waker.clone()),
        }
        let commands = std::mem::take(&mut state.commands);
        Turn {
            close: commands.close,
            drain: commands.drain,
            serve: commands.serve,
            deadline: state.deadline.take(),
            busy: state.calls.in_flight() > 1 && !state.out.is_empty(),
        }
    }

    /// Takes what is to be written and leaves `spare` for what comes next.
    pub(crate) fn take_output(&self, spare: Vec<u8>) -> Output {
        let mut state = self.lock();
        state.unsent = 0;
        if !state.out.is_empty() {
            let full = state.out.take(spare);
            state.unsent = full.len();
            return Output::Bytes(full);
        }
        if state.has_commands() {
            return Output::Again(spare);
        }
        state.awake = false;
        Output::Nothing(spare)
    }

    /// The link takes no more bytes now. Returns whether a command has come in meanwhile, and another turn is due.
    pub(crate) fn blocked(&self) -> bool {
        let mut state = self.lock();
        state.awake = state.has_commands();
        state.awake
    }

    /// Wakes the first who waits for room, if there is room. To be called after bytes have been written.
    pub(crate) fn written(&self, unsent: usize) {
        let mut state = self.lock();
        state.unsent = unsent;
        let waker = state.next_waiter();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Whether the outbox has room, so that another call may be started.
    pub(crate) fn has_room(&self) -> bool {
        self.lock().has_room()
    }

    /// Bytes that wait to be written.
    pub(crate) fn backlog(&self) -> usize {
        let state = self.lock();
        state.unsent + state.out.len()
    }

    /// Appends a frame of the driver's own.
    pub(crate) fn append(&self, f: impl FnOnce(&mut Outbound)) {
        f(&mut self.lock().out);
    }

    /// Hands out a batch of answers and collects the callers' wakers, to be woken when the lock is gone.
    pub(crate) fn answer(&self, answers: &mut Vec<(CallId, Answer)>, wakers: &mut Vec<Waker>) {
        let mut state = self.lock();
        for (id, answer) in answers.drain(..) {
            wakers.extend(state.calls.answer(id, answer));
        }
        // A late answer frees a slot without a caller that would pass it on.
        wakers.extend(state.next_waiter());
    }

    /// How many of our calls the peer has not answered.
    pub(crate) fn in_flight(&self) -> usize {
        self.lock().calls.in_flight()
    }

    /// Collects those whose deadline has passed, and returns the next deadline.
    pub(crate) fn expire(&self, now: Instant, wakers: &mut Vec<Waker>) -> Option<Instant> {
        let mut state = self.lock();
        let waiting = state.waiters.expire(now, wakers);
        let calls = state.calls.expire(now, wakers);
        match (waiting, calls) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Ends everything: every waiter gets the same reason. `written` bytes have been handed to the link in all.
    pub(crate) fn end(&self, reason: &CloseReason, written: u64) {
        let mut wakers = Vec::new();
        let mut state = self.lock();
        state.closed = Some(reason.clone());
        state.driver = None;
        state.calls.fail_all(written, &mut wakers);
        state.waiters.all(&mut wakers);
        drop(state);
        self.closed.send_replace(Some(reason.clone()));
        for waker in wakers {
            waker.wake();
        }
    }
}

impl State {
    pub(super) fn has_room(&self) -> bool {
        self.unsent + self.out.len() < self.outbox
    }

    /// Whether a call can be made right now.
    pub(super) fn can_call(&self) -> bool {
        self.has_room() && !self.calls.is_full()
    }

    /// The first who waits, if it could go on now.
    pub(super) fn next_waiter(&mut self) -> Option<Waker> {
        if !self.waiters.is_empty() && self.can_call() { self.waiters.next() } else { None }
    }

    fn has_commands(&self) -> bool {
        let Commands { close, drain, serve } = &self.commands;
        close.is_some() || drain.is_some() || *serve || self.deadline.is_some()
    }

    /// Tells the driver of a deadline.
    pub(super) fn note_deadline(&mut self, deadline: Instant) {
        self.deadline = Some(self.deadline.map_or(deadline, |known| known.min(deadline)));
    }

    /// The driver's waker, unless it looks anyway.
    pub(super) fn wake_driver(&mut self) -> Option<Waker> {
        if std::mem::replace(&mut self.awake, true) { None } else { self.driver.clone() }
    }
}
