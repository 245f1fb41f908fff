//! A session that goes on over another link.
//!
//! The driver and what it shares with the handles are the session; a link is only what they have at the moment. When it is
//! lost, handlers, calls and streams stay where they are, what is to be sent waits, and whoever has the session's [`Anchor`] may
//! tie it to another link. Both sides then send again what the other has not handled: frames are counted in bytes, each side keeps
//! what it has sent until it is acknowledged, and says when it comes back how far it has come.

use std::{
    fmt, mem,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    task::Context,
};

use tokio::{sync::oneshot, time::Instant};

use super::{
    driver::Driver,
    establish::{Established, Lasting},
};
use crate::{
    Connection,
    controller::caught,
    frame::{Control, ResumeToken},
    handshake::{Attach, Kept, PublicKey, SessionId},
    link::Link,
    peer::Shared,
    status::{CloseCode, CloseReason},
};

/// Ties a session to another link when it has lost its own, or in place of it. Made by [`Driver::anchor`]; cheap to clone.
pub struct Anchor<L> {
    slot: Arc<Slot<L>>,
    shared: Arc<Shared>,
    connection: Connection,
}

/// Where a link waits for the driver.
pub(super) struct Slot<L> {
    state: Mutex<State<L>>,
    /// The number of the link that was asked for last.
    epoch: AtomicU32,
}

enum State<L> {
    Empty,
    Waiting(Box<Waiting<L>>),
    /// The session is over.
    Over,
}

struct Waiting<L> {
    established: Established<L>,
    done: oneshot::Sender<Result<(), Refused<L>>>,
}

/// A session does not go on over a link.
pub struct Refused<L> {
    /// The link, for another session.
    pub established: Box<Established<L>>,
    /// Why.
    pub why: Why,
}

/// Why a session does not go on over a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Why {
    /// The session is over.
    Over,
    /// The session has gone on over a link that was asked for later.
    Stale,
    /// What the peer needs is not kept any more, or the link has other terms than the session.
    Lost,
    /// The link was not made to go on with this session.
    Foreign,
}

impl<L> Clone for Anchor<L> {
    fn clone(&self) -> Self {
        let Self { slot, shared, connection } = self;
        Self { slot: Arc::clone(slot), shared: Arc::clone(shared), connection: connection.clone() }
    }
}

impl<L> fmt::Debug for Anchor<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Anchor").field("session", &self.session()).finish_non_exhaustive()
    }
}

impl<L> fmt::Debug for Refused<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refused").field("why", &self.why).finish_non_exhaustive()
    }
}

impl<L> Anchor<L> {
    /// The session, if it outlives its links. The side that connects learns it from the first words of the other.
    pub fn session(&self) -> Option<SessionId> {
        self.shared.kept.get().map(|kept| kept.session)
    }

    /// The connection that the session is.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Whether this is what the session is known by, and whoever has proven `peer_key` may have it. Takes the same time
    /// wherever the token differs.
    pub fn admits(&self, token: &ResumeToken, peer_key: Option<&PublicKey>) -> bool {
        let known = self.shared.kept.get().is_some_and(|kept| kept.token == *token);
        known && self.shared.setup.peer_key.as_ref() == peer_key
    }

    /// What to ask for with [`connect_attached`](super::connect_attached), while the session has no link. Each one that is
    /// asked for makes those before it stale.
    pub fn offer(&self) -> Option<Attach> {
        let detached = self.connection.detached()?;
        let kept = self.shared.kept.get()?;
        let epoch = self.slot.epoch.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        Some(Attach::new(kept.session, kept.token.clone(), epoch, detached.received))
    }

    /// Goes on with the session over this link: on the side that connects one of which
    /// [`Established::is_attached`] is true, on the other one whose [`Established::attach`] asks for this session, which is to be
    /// [admitted](Anchor::admits) first. A link that the session still has is dropped.
    ///
    /// Cancel safe: the link is taken or dropped.
    ///
    /// # Errors
    /// [`Refused`] says why not, and gives the link back.
    pub async fn attach(&self, established: Established<L>) -> Result<(), Refused<L>> {
        let (done, answer) = oneshot::channel();
        {
            let mut state = self.slot.lock();
            if matches!(*state, State::Over) {
                return Err(Refused { established: Box::new(established), why: Why::Over });
            }
            let waiting = State::Waiting(Box::new(Waiting { established, done }));
            if let State::Waiting(older) = mem::replace(&mut *state, waiting) {
                older.refuse(Why::Stale);
            }
        }
        self.shared.request_attach();
        // The driver answers, also when it ends.
        answer.await.unwrap_or(Ok(()))
    }
}

impl<L> Slot<L> {
    pub(super) fn new() -> Self {
        Self { state: Mutex::new(State::Empty), epoch: AtomicU32::new(0) }
    }

    fn lock(&self) -> MutexGuard<'_, State<L>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Option<Box<Waiting<L>>> {
        match mem::replace(&mut *self.lock(), State::Empty) {
            State::Waiting(waiting) => Some(waiting),
            _ => None,
        }
    }

    /// Nothing goes on here any more.
    pub(super) fn close(&self) {
        if let State::Waiting(waiting) = mem::replace(&mut *self.lock(), State::Over) {
            waiting.refuse(Why::Over);
        }
    }
}

impl<L> Waiting<L> {
    fn refuse(self, why: Why) {
        // Who does not wait any more has dropped the link.
        drop(self.done.send(Err(Refused { established: Box::new(self.established), why })));
    }
}

/// Who is told when a session has lost its link (`false`) and when it has another.
pub type LinkWatcher = Arc<dyn Fn(&Connection, bool) + Send + Sync>;

/// How a session without a link stands.
#[derive(Debug)]
pub(super) struct Away {
    /// Since when.
    pub(super) since: Instant,
    /// When it is over. `None`: never, since the time is beyond what can be told.
    pub(super) until: Option<Instant>,
    cause: CloseReason,
}

impl<L: Link> Driver<L> {
    /// Lets the session outlive its links, if both sides keep what is not acknowledged: from now on a link that is lost ends
    /// nothing until the grace time is over. To be called before it is polled.
    pub fn anchor(&mut self) -> Anchor<L> {
        let slot = Arc::clone(self.slot.get_or_insert_with(|| Arc::new(Slot::new())));
        let (shared, connection) = (Arc::clone(&self.shared), self.context.connection().clone());
        Anchor { slot, shared, connection }
    }

    /// Calls `watcher` whenever the session loses its link, and whenever it goes on over another: once each, in turns, from the
    /// driver, before any hook runs. It must not wait, nor poll or drop this driver.
    pub fn watch_link(&mut self, watcher: LinkWatcher) {
        self.watcher = Some(watcher);
    }

    fn tell(&self, there: bool) {
        if let Some(watcher) = &self.watcher {
            drop(caught(|| watcher(self.context.connection(), there)));
        }
    }

    /// Whether the session can wait for another link when it loses this one.
    pub(super) fn outlives_link(&self) -> bool {
        self.slot.is_some() && self.phase.is_open() && self.shared.kept.get().is_some()
    }

    /// The link is lost. Returns whether the session goes on without.
    pub(super) fn detach(&mut self, cause: &CloseReason) -> bool {
        if cause.code != CloseCode::Lost || self.link.is_none() || !self.outlives_link() {
            return false;
        }
        let Some(grace) = self.shared.kept.get().map(|kept| kept.grace) else { return false };
        self.drop_link();
        let since = Instant::now();
        self.away = Some(Away { since, until: since.checked_add(grace), cause: cause.clone() });
        self.shared.detach(cause.clone(), self.inbound.position());
        tracing::debug!(%cause, "the link is lost");
        self.tell(false);
        self.start_link_hooks(Some(cause));
        true
    }

    fn drop_link(&mut self) {
        self.link = None;
        self.writing.clear();
        (self.at, self.stalled) = (0, None);
        self.shared.wrote_all();
        self.must_look = true;
        // What has been read and not handled comes again.
        self.unhandled = false;
    }

    /// What a connection ends with that is cut off. One that has no link has ended with that, for all who look.
    pub(super) fn cut_off(&self) -> CloseReason {
        match &self.away {
            Some(away) => away.cause.clone(),
            None => CloseReason::new(CloseCode::GoingAway, "cut off"),
        }
    }

    /// The time for another link is over.
    pub(super) fn gave_up(&self, now: Instant) -> Option<CloseReason> {
        let away = self.away.as_ref()?;
        away.until.is_some_and(|until| until <= now).then(|| away.cause.clone())
    }

    /// A link is waiting.
    pub(super) fn take_link(&mut self, cx: &Context<'_>) {
        let Some(waiting) = self.slot.as_ref().and_then(|slot| slot.take()) else { return };
        let Waiting { established, done } = *waiting;
        let result = self.go_on(established);
        cx.waker().wake_by_ref();
        drop(done.send(result));
    }

    fn go_on(&mut self, mut established: Established<L>) -> Result<(), Refused<L>> {
        let refused = |established, why| Err(Refused { established: Box::new(established), why });
        if !self.phase.is_open() {
            return refused(established, Why::Over);
        }
        if established.setup.terms != self.shared.setup.terms {
            return refused(established, Why::Lost);
        }
        let received = match &established.lasting {
            Some(Lasting::Resumed(received)) => *received,
            Some(Lasting::Asked(_, attach)) if attach.epoch <= self.epoch => {
                return refused(established, Why::Stale);
            }
            Some(Lasting::Asked(_, attach)) => {
                let (epoch, received) = (attach.epoch, attach.received);
                if !self.shared.can_go_on(received) {
                    return refused(established, Why::Lost);
                }
                self.epoch = epoch;
                let handled = Control::Resumed { received: self.inbound.position() };
                established.outbound.append_of_link(&handled);
                received
            }
            _ => return refused(established, Why::Foreign),
        };
        if !self.shared.can_go_on(received) {
            return refused(established, Why::Lost);
        }
        let Established { link, mut inbound, outbound, mut setup, .. } = established;
        self.drop_link();
        if self.away.take().is_none() {
            // Who follows the session is told that it has lost its link, too.
            let cause = CloseReason::new(CloseCode::Lost, "the peer has come back over another link");
            self.shared.detach(cause.clone(), self.inbound.position());
            self.tell(false);
            self.start_link_hooks(Some(&cause));
        }
        mem::swap(&mut inbound, &mut self.inbound);
        self.inbound.go_on(inbound);
        self.shared.received.all_told(self.inbound.position());
        let mut first = mem::take(&mut self.writing);
        if let Some(position) = self.shared.go_on(&mut setup, outbound, received, &mut first) {
            self.written = self.written.max(position);
        }
        self.writing = first;
        self.link = Some(link);
        self.unhandled = true;
        let now = self.now();
        self.liveness.restart(now);
        if self.liveness.is_awaited() {
            self.ping_for(Vec::new());
        }
        self.shared.attached();
        tracing::debug!("the session goes on over another link");
        self.tell(true);
        self.start_link_hooks(None);
        Ok(())
    }
}

impl<L> Driver<L> {
    /// What the session is known by, if it can outlive its links. A peer that has asked for another is told.
    pub(super) fn open_session(established: &mut Established<L>, log: usize) -> Option<Kept> {
        let lasting = established.lasting.take()?;
        established.outbound.keep_log(log);
        match lasting {
            Lasting::New(kept) => Some(kept),
            Lasting::Asked(kept, _) => {
                established.outbound.append_of_link(&Control::Fresh);
                Some(kept)
            }
            Lasting::Resumed(_) => None,
        }
    }
}
