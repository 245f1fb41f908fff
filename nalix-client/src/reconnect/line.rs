//! What a session's handles, its calls and its supervisor share.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    task::Waker,
};

use nalix_core::{
    CloseCode, CloseReason, Connection, Offline,
    connection::{Audience, RouterCell},
    handshake::SessionTicket,
};
use tokio::{
    sync::{broadcast, watch},
    time::Instant,
};

use super::{
    backoff::FOR_EVER,
    state::{Cause, Events, SessionEvent, SessionState},
    wait::{Stop, Wait},
};
use crate::{clock::Clock, reconnect_options::ReconnectOptions, retry::Budget};

/// The way from a session to its server, whatever connection that goes over.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) audience: Audience,
    pub(crate) router: Arc<RouterCell>,
    pub(crate) options: ReconnectOptions,
    pub(crate) budget: Budget,
    pub(crate) clock: Clock,
    /// How many packets wait for a subscriber unless it says otherwise.
    pub(crate) push_queue: usize,
    /// The first connection, and whether calls go over it: most sessions never need another, and then each request finds its
    /// way without a lock.
    first: Connection,
    on_first: AtomicBool,
    state: Mutex<State>,
    /// What the session is doing without a connection.
    phase: watch::Sender<Phase>,
    events: Mutex<Option<broadcast::Sender<SessionEvent>>>,
    /// Counts hints that another network is there.
    hints: watch::Sender<u64>,
}

#[derive(Debug)]
struct State {
    /// The connection, or the last one there was.
    connection: Connection,
    /// Whether calls can go over it.
    online: bool,
    /// Somebody here has closed the session.
    closing: bool,
    over: Option<CloseReason>,
    ticket: Option<SessionTicket>,
    resumed: bool,
    /// Those who wait for a connection, in the order in which they came.
    waiting: BTreeMap<u64, Waiting>,
    issued: u64,
    /// Bytes of those.
    bytes: usize,
}

#[derive(Debug)]
struct Waiting {
    waker: Waker,
    bytes: usize,
}

/// What a session is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Phase {
    /// It has a connection, or has just lost it.
    Connected,
    /// It waits for the next attempt, until then, or makes it.
    Reconnecting { attempt: u32, cause: Cause, next: Option<Instant> },
    /// Somebody here has closed it.
    Closing,
    /// It is over.
    Over,
}

/// Kept with each connection of a session: the way back to the session, for calls that go over the next one.
#[derive(Debug)]
pub(crate) struct LineOf(Weak<Line>);

impl LineOf {
    /// The line that a connection belongs to, while somebody has a hold of the session.
    pub(crate) fn of(connection: &Connection) -> Option<Arc<Line>> {
        connection.get::<LineOf>()?.0.upgrade()
    }
}

impl Line {
    pub(crate) fn new(
        connection: Connection,
        (audience, router): (Audience, Arc<RouterCell>),
        options: ReconnectOptions,
        push_queue: usize,
    ) -> Arc<Self> {
        let first = connection.clone();
        let state = State {
            connection,
            online: true,
            closing: false,
            over: None,
            ticket: None,
            resumed: false,
            waiting: BTreeMap::new(),
            issued: 0,
            bytes: 0,
        };
        let line = Arc::new(Self {
            audience,
            router,
            budget: Budget::new(options.retry_budget),
            clock: Clock::default(),
            options,
            push_queue,
            first,
            on_first: AtomicBool::new(true),
            state: Mutex::new(state),
            phase: watch::Sender::new(Phase::Connected),
            events: Mutex::new(Some(broadcast::Sender::new(KEPT_EVENTS))),
            hints: watch::Sender::new(0),
        });
        line.lock().connection.set(LineOf(Arc::downgrade(&line)));
        line
    }

    /// The connection, or the last one there was.
    pub(crate) fn connection(&self) -> Connection {
        self.lock().connection.clone()
    }

    /// As [`Line::connection`], and whether calls can go over it. This is on the way of every request.
    #[inline]
    pub(crate) fn route(&self) -> (Connection, bool) {
        if self.on_first.load(Ordering::Acquire) {
            return (self.first.clone(), true);
        }
        let state = self.lock();
        (state.connection.clone(), state.online)
    }

    /// Whether the session looks for another connection when it loses this one.
    pub(crate) fn reconnects(&self) -> bool {
        self.options.enabled
    }

    /// How the session is.
    pub(crate) fn session_state(&self) -> SessionState {
        let state = self.lock();
        if let Some(reason) = &state.over {
            return SessionState::Closed(reason.clone());
        }
        let connection = state.connection.clone();
        drop(state);
        if let Phase::Reconnecting { attempt, cause, next } = &*self.phase.borrow() {
            let (attempt, cause, next) = (*attempt, cause.clone(), next.map(Into::into));
            return SessionState::Reconnecting { attempt, cause, next };
        }
        match connection.close_reason() {
            None if connection.is_peer_draining() => {
                SessionState::Draining { deadline: connection.peer_drain_deadline() }
            }
            None => SessionState::Connected,
            // The supervisor has not seen it yet.
            Some(reason) if self.reconnects() && !self.lock().closing => {
                SessionState::Reconnecting { attempt: 1, cause: Cause::Lost(reason), next: None }
            }
            Some(reason) => SessionState::Closed(reason),
        }
    }

    pub(crate) fn events(&self) -> Events {
        if !self.reconnects() {
            return Events::of_connection(self.connection());
        }
        let events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        events.as_ref().map_or_else(Events::over, |events| Events::of_session(events.subscribe()))
    }

    pub(super) fn event(&self, event: SessionEvent) {
        if let Some(events) = &*self.events.lock().unwrap_or_else(PoisonError::into_inner) {
            drop(events.send(event));
        }
    }

    pub(crate) fn ticket(&self) -> Option<SessionTicket> {
        self.lock().ticket.clone()
    }

    pub(crate) fn is_resumed(&self) -> bool {
        self.lock().resumed
    }

    pub(crate) fn set_standing(&self, ticket: Option<SessionTicket>, resumed: bool) {
        let mut state = self.lock();
        (state.ticket, state.resumed) = (ticket, resumed);
    }

    /// How many wait for a connection.
    pub(crate) fn waiting(&self) -> usize {
        self.lock().waiting.len()
    }

    /// Another network may be there.
    pub(crate) fn hint(&self) {
        self.hints.send_modify(|n| *n += 1);
    }

    pub(super) fn hints(&self) -> watch::Receiver<u64> {
        self.hints.subscribe()
    }

    pub(super) fn phase(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    /// Ends the session for good.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closing = true;
        let connection = state.connection.clone();
        drop(state);
        connection.close();
        self.phase.send_if_modified(|phase| match phase {
            Phase::Over => false,
            phase => {
                *phase = Phase::Closing;
                true
            }
        });
    }

    pub(super) fn is_closing(&self) -> bool {
        self.lock().closing
    }

    /// The connection is gone, and the session looks for another.
    pub(super) fn offline(&self) {
        self.set_online(&mut self.lock(), false);
    }

    fn set_online(&self, state: &mut State, online: bool) {
        state.online = online;
        self.on_first.store(online && state.connection == self.first, Ordering::Release);
    }

    /// Says what comes next.
    pub(super) fn reconnecting(&self, attempt: u32, cause: &Cause, next: Option<Instant>) {
        self.phase.send_if_modified(|phase| match phase {
            Phase::Closing | Phase::Over => false,
            phase => {
                *phase = Phase::Reconnecting { attempt, cause: cause.clone(), next };
                true
            }
        });
    }

    /// A connection is there. Those who wait go on over it, in the order in which they came. Returns whether the session
    /// still wants it.
    pub(super) fn online(self: &Arc<Self>, connection: Connection) -> bool {
        connection.set(LineOf(Arc::downgrade(self)));
        let mut state = self.lock();
        state.connection = connection;
        self.set_online(&mut state, true);
        let wanted = !state.closing;
        let wakers = state.wakers();
        drop(state);
        // Controllers that have come while its driver was made are not with it yet.
        self.router.apply(&self.connection());
        self.phase.send_if_modified(|phase| match phase {
            Phase::Closing | Phase::Over => false,
            phase => {
                *phase = Phase::Connected;
                true
            }
        });
        wakers.into_iter().for_each(Waker::wake);
        wanted
    }

    /// The session is over.
    pub(super) fn end(&self, reason: CloseReason) {
        let mut state = self.lock();
        self.set_online(&mut state, false);
        let reason = state.over.get_or_insert(reason).clone();
        let wakers = state.wakers();
        drop(state);
        self.audience.end();
        self.phase.send_replace(Phase::Over);
        self.event(SessionEvent::Closed(reason));
        self.events.lock().unwrap_or_else(PoisonError::into_inner).take();
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Waits until the session is over.
    pub(crate) async fn closed(&self) -> CloseReason {
        if !self.reconnects() {
            return self.connection().closed().await;
        }
        // The sender lives as long as `self`.
        drop(self.phase.subscribe().wait_for(|phase| *phase == Phase::Over).await);
        self.lock().over.clone().unwrap_or_else(|| CloseReason::new(CloseCode::Lost, ""))
    }

    /// Waits until the session has a connection, or is over.
    pub(crate) async fn connected(&self) -> Result<(), CloseReason> {
        let mut phase = self.phase.subscribe();
        loop {
            match self.session_state() {
                SessionState::Closed(reason) => return Err(reason),
                SessionState::Reconnecting { .. } => drop(phase.changed().await),
                _ => return Ok(()),
            }
        }
    }

    /// Where something goes that could not go over a connection, since that is `gone`, or since there was none when it was made.
    ///
    /// # Errors
    /// [`Stop`] says why it goes nowhere.
    pub(crate) fn reroute(
        self: &Arc<Self>,
        gone: Option<&Connection>,
        waits: bool,
        bytes: usize,
        deadline: Option<Instant>,
    ) -> Result<Wait, Stop> {
        let mut state = self.lock();
        // One that has only lost its link may have another by now.
        if gone == Some(&state.connection) {
            self.set_online(&mut state, false);
        }
        if let Some(over) = state.over_for(self.reconnects()) {
            return Err(Stop::Over(over));
        }
        if !state.online {
            let full = state.waiting.len() >= self.options.offline_calls
                || (state.bytes.saturating_add(bytes) > self.options.offline_bytes && state.bytes > 0);
            if !waits || self.options.offline_age.is_zero() {
                return Err(Stop::Offline(Offline::NotWaiting));
            }
            if full {
                return Err(Stop::Offline(if self.options.offline_calls == 0 {
                    Offline::NotWaiting
                } else {
                    Offline::Full
                }));
            }
        }
        let place = state.issued;
        state.issued += 1;
        state.bytes += bytes;
        state.waiting.insert(place, Waiting { waker: Waker::noop().clone(), bytes });
        drop(state);
        Ok(Wait::new(Arc::clone(self), place, self.expiry(), deadline))
    }

    fn expiry(&self) -> Option<Instant> {
        Instant::now().checked_add(self.options.offline_age.min(FOR_EVER))
    }

    /// The connection to go on over, if there is one.
    pub(super) fn poll_place(&self, place: u64, waker: &Waker) -> Option<Result<Connection, CloseReason>> {
        let mut state = self.lock();
        if let Some(over) = state.over_for(self.reconnects()) {
            return Some(Err(over));
        }
        if state.online {
            return Some(Ok(state.connection.clone()));
        }
        if let Some(waiting) = state.waiting.get_mut(&place) {
            waiting.waker.clone_from(waker);
        }
        None
    }

    pub(super) fn leave(&self, place: u64) {
        let mut state = self.lock();
        if let Some(Waiting { bytes, waker }) = state.waiting.remove(&place) {
            state.bytes -= bytes;
            drop(state);
            drop(waker);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Why nothing goes any more, if that is so.
    fn over_for(&self, reconnects: bool) -> Option<CloseReason> {
        if let Some(over) = &self.over {
            return Some(over.clone());
        }
        if self.closing || !reconnects {
            let lost = || CloseReason::new(CloseCode::Normal, "");
            return (self.closing || !self.online)
                .then(|| self.connection.close_reason().unwrap_or_else(lost));
        }
        None
    }

    fn wakers(&self) -> Vec<Waker> {
        self.waiting.values().map(|waiting| waiting.waker.clone()).collect()
    }
}

/// How many events are kept for those who do not read them.
const KEPT_EVENTS: usize = 64;
