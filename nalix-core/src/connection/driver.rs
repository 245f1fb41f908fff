//! The driver's loop: reads, hands frames on, writes.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use tokio::time::Instant;

use super::{
    Established, Options, RouterCell, Serving,
    anchor::{Away, LinkWatcher, Slot},
    blame::code_of,
    clocks::Clocks,
    inbox::{Answered, Inbox},
    liveness::Liveness,
    patience::Patience,
    phase::{Phase, draining, going_away},
    timer::Timer,
    unread::Unread,
    writing::{Extra, Short, lost, put_last},
};
use crate::{
    CallId, Connection,
    controller::{self, HookFuture, Router, caught},
    error::ProtocolError,
    frame::Control,
    limit::Levels,
    link::Link,
    peer::{Arrival, Commands, Shared},
    session::{Cover, Inbound, MemoryBudget},
    status::{CloseCode, CloseReason},
};

/// A connection's task: a future that resolves to the reason for which the connection ended.
///
/// Dropping it ends the connection without a word to the peer; everyone who waits on it is told.
#[must_use = "a connection does nothing unless its driver is polled"]
pub struct Driver<L> {
    /// `None` while the session waits for another.
    pub(super) link: Option<L>,
    /// Where another link comes in, if the session outlives them.
    pub(super) slot: Option<Arc<Slot<L>>>,
    pub(super) away: Option<Away>,
    pub(super) watcher: Option<LinkWatcher>,
    /// The number of the link, as the side that connects counts them.
    pub(super) epoch: u32,
    pub(super) inbound: Inbound,
    pub(super) shared: Arc<Shared>,
    pub(super) context: controller::Context,
    pub(super) options: Options,
    pub(super) router: Router,
    pub(super) serving: Serving,
    /// Where a router comes from that replaces ours, if ours can be replaced.
    pub(super) replacement: Option<Arc<RouterCell>>,
    pub(super) inbox: Inbox,
    pub(super) phase: Phase,
    pub(super) patience: Patience,
    pub(super) liveness: Liveness,
    pub(super) clocks: Clocks,
    /// The buckets of handlers whose rates are kept for each connection.
    pub(super) levels: Levels,
    /// Hooks that must be done before the first packet is handled.
    pub(super) hooks: Option<HookFuture>,
    pub(super) hooks_run: usize,
    /// Bytes being written, and how many of them have been.
    pub(super) writing: Vec<u8>,
    pub(super) at: usize,
    /// Bytes handed to the link since the connection began.
    pub(super) written: u64,
    /// Since when the link has taken nothing of what waits.
    pub(super) stalled: Option<Instant>,
    pub(super) unread: Unread,
    /// Whether the last turn has put a flush off, so that this one must not.
    put_off: bool,
    pub(super) timer: Timer,
    /// The time, read once a turn when it is first needed.
    pub(super) now: Option<Instant>,
    pub(super) answers: Vec<(CallId, Cover, Arrival)>,
    pub(super) answered: Vec<Answered>,
    pub(super) buffers: Vec<Vec<u8>>,
    pub(super) wakers: Vec<Waker>,
    /// Of which priorities a call waits only for room in the outbox, and of which a stream does.
    pub(super) short: Short,
    pub(super) short_items: Short,
    /// For calls beyond the outbox's room, and for items.
    pub(super) extra_call: Extra,
    pub(super) extra_items: Extra,
    /// Whether `inbound` may hold whole frames that have not been handled.
    pub(super) unhandled: bool,
    /// Whether the service has been asked for readiness that has not come yet.
    pub(super) queued_for_service: bool,
    /// Bytes that waited to be written when the outbox was last looked at.
    pub(super) backlog: usize,
    /// Whether the outbox may hold something that the driver is to write before it sleeps.
    pub(super) must_look: bool,
    /// Whom the outbox and the handlers wake.
    waker: Option<Waker>,
    ended: bool,
}

impl<L> fmt::Debug for Driver<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver")
            .field("shared", &self.shared)
            .field("phase", &self.phase)
            .finish_non_exhaustive()
    }
}

impl<L: Link> Driver<L> {
    /// Takes an established connection over. The handle may be used before the driver is first polled.
    pub fn new(mut established: Established<L>, serving: Serving, options: &Options) -> (Connection, Self) {
        let options = options.clone().in_range();
        let kept = Self::open_session(&mut established, options.resume_log);
        let Established { link, inbound, outbound, setup, .. } = established;
        let shared = Arc::new(Shared::new(setup, outbound));
        if let Some(kept) = kept {
            // Nobody has set it yet.
            drop(shared.kept.set(kept));
        }
        let connection = Connection::new(Arc::clone(&shared));
        let router = serving.router.clone();
        let context = controller::Context::new(
            connection.clone(),
            Arc::clone(router.states()),
            router.limits().clone(),
        );
        let terms = &shared.setup.terms;
        let inbox = Inbox::new(router.lanes(), terms.calls_in, terms.window_out, options.large_outbox);
        let mut driver = Self {
            link: Some(link),
            slot: None,
            away: None,
            watcher: None,
            epoch: 0,
            inbound,
            shared,
            context,
            patience: Patience::new(options.max_malformed),
            liveness: Liveness::new(&options),
            clocks: Clocks::default(),
            options,
            router,
            serving,
            replacement: None,
            inbox,
            phase: Phase::Open,
            levels: Levels::default(),
            hooks: None,
            hooks_run: 0,
            writing: Vec::new(),
            at: 0,
            written: 0,
            stalled: None,
            unread: Unread::default(),
            put_off: false,
            timer: Timer::default(),
            now: None,
            answers: Vec::new(),
            answered: Vec::new(),
            buffers: Vec::new(),
            wakers: Vec::new(),
            short: Short::default(),
            short_items: Short::default(),
            extra_call: Extra::default(),
            extra_items: Extra::default(),
            // The peer may have sent them together with the end of the handshake.
            unhandled: true,
            queued_for_service: false,
            backlog: 0,
            must_look: true,
            waker: None,
            ended: false,
        };
        driver.start_hooks();
        (connection, driver)
    }

    /// Lets the router get more controllers while the connection lives, through `cell`.
    pub fn replaceable(mut self, cell: Arc<RouterCell>) -> Self {
        self.replacement = Some(cell);
        self
    }

    /// Lets messages that come in fragments count for a bound that other connections share, besides their own. To be called
    /// before it is polled.
    pub fn share_reassembly(mut self, budget: Arc<MemoryBudget>) -> Self {
        self.inbound.set_budget(budget);
        self
    }

    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<CloseReason> {
        self.now = None;
        let moved = !self.waker.as_ref().is_some_and(|known| known.will_wake(cx.waker()));
        let mut busy = false;
        if self.shared.was_called() || self.must_look || moved {
            self.must_look = true;
            let turn = self.shared.look(cx.waker());
            busy = turn.busy;
            self.backlog = turn.backlog;
            if let Some(deadline) = turn.deadline {
                self.timer.arm(deadline);
            }
            if moved {
                self.waker = Some(cx.waker().clone());
                self.timer.unwatch();
                if let Some(at) = self.liveness.due() {
                    self.timer.arm(at);
                }
                self.inbox.set_driver(cx.waker());
            }
            if let Some(commands) = turn.commands {
                if commands.abort {
                    return Poll::Ready(self.cut_off());
                }
                self.obey(*commands, cx);
                if self.link.is_none()
                    && let Phase::Closing { reason, .. } = &self.phase
                {
                    // There is nobody to say goodbye to.
                    return Poll::Ready(reason.clone());
                }
            }
        }
        if self.timer.fired()
            && let Some(reason) = self.on_time()
        {
            return Poll::Ready(reason);
        }
        self.poll_hooks(cx);
        self.inbox.poll_running(&mut self.answered);
        self.send_answered();
        self.pump(cx);

        let mut reads = 0;
        let mut unread = false;
        let mut heard = false;
        loop {
            if self.unhandled
                && self.may_read()
                && let Some(reason) = self.handle_frames(cx)
            {
                return Poll::Ready(reason);
            }
            if self.unhandled || !self.may_read() {
                unread = true;
                break;
            }
            match self.poll_read(cx) {
                Poll::Ready(Ok(0)) => {
                    // What a handler or the peer's last words have put into the outbox may still be of use to it.
                    drop(self.poll_flush(cx));
                    return Poll::Ready(self.end_of_input());
                }
                Poll::Ready(Ok(_)) => {
                    heard = true;
                    if let Some(reason) = self.handle_frames(cx) {
                        return Poll::Ready(reason);
                    }
                }
                Poll::Ready(Err(error)) => return Poll::Ready(lost(&error)),
                Poll::Pending => break,
            }
            // The answers to several reads go out together, up to a point.
            if self.backlog >= FLUSH_AT
                && let Poll::Ready(Err(reason)) = self.poll_flush(cx)
            {
                return Poll::Ready(reason);
            }
            reads += 1;
            if reads == MAX_READS {
                // Others want to run, too.
                cx.waker().wake_by_ref();
                break;
            }
        }

        if heard {
            self.note_heard();
        }

        // Woken for output alone, with several calls in flight: the other callers are probably about to run, and
        // one write for all of them is far cheaper than one each.
        if reads == 0 && busy && !self.put_off {
            self.put_off = true;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.put_off = false;
        self.send_parts();
        self.acknowledge();
        self.inbound.set_held(self.inbox.held());
        self.close_when_drained();
        let flushed = self.poll_flush(cx);
        if let Poll::Ready(Err(reason)) = flushed {
            return Poll::Ready(reason);
        }
        if let Some(reason) = self.poll_close(cx, flushed.is_ready()) {
            return Poll::Ready(reason);
        }
        self.feed_streams();
        // Room that this flush has made is news to nobody else.
        if self.room_has_come() || self.can_resume_streams() || (unread && self.may_read()) {
            cx.waker().wake_by_ref();
        }
        if let Some(reason) = self.bound_unread() {
            return Poll::Ready(reason);
        }
        self.arm(cx);
        Poll::Pending
    }

    /// Does what the handles have asked for.
    fn obey(&mut self, commands: Commands, cx: &Context<'_>) {
        if commands.attach {
            self.take_link(cx);
        }
        if commands.detach {
            self.detach(&CloseReason::new(CloseCode::Lost, "given up"));
        }
        if commands.serve
            && let Some(cell) = &self.replacement
        {
            self.router = cell.current();
            self.serving = Serving::from(self.router.clone());
            self.inbox.set_lanes(self.router.lanes());
            self.start_hooks();
        }
        if let Some(within) = commands.drain
            && self.phase.is_open()
        {
            self.append_control(&Control::Drain { within });
            let until = self.now().checked_add(within);
            self.phase = Phase::Draining { until };
            self.shared.drains(until);
            let status = draining();
            self.inbox.refuse_queued(&status, &mut self.answered);
            self.send_answered();
            if self.link.is_none() {
                // Nobody hears of it, nor of what comes of the calls.
                self.close(going_away());
            }
        }
        if !commands.pings.is_empty() {
            self.ping_for(commands.pings);
        }
        if !commands.times.is_empty() {
            self.ask_time(commands.times);
        }
        if let Some(reason) = commands.close {
            self.close(reason);
        }
    }

    /// Says goodbye. What comes from the peer after this is not looked at.
    pub(super) fn close(&mut self, reason: CloseReason) {
        if self.phase.is_closing() {
            return;
        }
        self.must_look = true;
        if reason.code == CloseCode::GoingAway {
            self.inbox.end_streams(&draining(), &mut self.answered);
            self.send_answered();
        }
        let reason = self.shared.seal(reason, |out, reason| {
            put_last(out, &Control::Close(reason.clone()));
        });
        self.inbound.drop_unfinished();
        let mut until = self.now().checked_add(self.options.close_timeout);
        if let Phase::Draining { until: drained } = self.phase {
            // What waits to be written has the time that was announced.
            until = until.zip(drained).map(|(a, b)| a.max(b));
        }
        self.phase = Phase::Closing { reason, until };
    }

    /// Closes for a fault of the peer's.
    pub(super) fn refuse_peer(&mut self, error: &ProtocolError) {
        let code = match error {
            ProtocolError::CutRecord { .. } => CloseCode::Lost,
            error => {
                self.shared.blame_peer();
                code_of(error)
            }
        };
        self.close(CloseReason::new(code, error.to_string()));
    }

    fn close_when_drained(&mut self) {
        if matches!(self.phase, Phase::Draining { .. })
            && self.inbox.is_idle()
            && self.shared.in_flight() == 0
        {
            self.close(going_away());
        }
    }

    // Callers.

    pub(super) fn deliver_answers(&mut self) {
        if !self.answers.is_empty() {
            let handed_out = self.shared.deliver(&mut self.answers, &mut self.wakers);
            self.wake_callers();
            match handed_out {
                Ok(unsent) => self.must_look |= unsent,
                Err(error) => self.refuse_peer(&error),
            }
        }
    }

    pub(super) fn wake_callers(&mut self) {
        for waker in self.wakers.drain(..) {
            waker.wake();
        }
    }
}

impl<L> Driver<L> {
    /// What is served now.
    pub fn router(&self) -> &Router {
        &self.router
    }

    fn end(&mut self, reason: &CloseReason) {
        self.ended = true;
        if let Some(slot) = &self.slot {
            slot.close();
        }
        self.shared.end(reason, self.written);
        // Handlers hold what they borrowed until they are dropped, and their destructors are user code.
        self.inbox.stop_all();
        self.liveness.end();
        self.clocks.end();
        let hooks = self.hooks.take();
        drop(caught(move || drop(hooks)));
    }
}

impl<L: Link + Unpin> Future for Driver<L> {
    type Output = CloseReason;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<CloseReason> {
        let this = self.get_mut();
        let polled = this.poll_turn(cx);
        if let Poll::Ready(reason) = &polled {
            if this.detach(reason) {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            this.end(reason);
        }
        polled
    }
}

impl<L> Drop for Driver<L> {
    fn drop(&mut self) {
        if !self.ended {
            self.end(&CloseReason::new(CloseCode::Lost, "the connection's task was dropped"));
        }
    }
}

/// How many reads one turn makes before others get to run.
const MAX_READS: usize = 8;
/// With this many bytes waiting, a turn writes before it reads on.
const FLUSH_AT: usize = 16 * 1024;
