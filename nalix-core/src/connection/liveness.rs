//! Whether the peer is still there, and whether anybody still uses the connection.
//!
//! Nothing here has a timer of its own: what is due next goes into the connection's one timer, and is only looked at
//! when that fires. Traffic moves two instants and leaves the timer alone.

use std::time::Duration;

use tokio::{sync::oneshot, time::Instant};

use super::{driver::Driver, options::Options};
use crate::{
    frame::{FrameKind, Head},
    link::Link,
    session::Cover,
    status::{Advice, CloseCode, CloseReason},
};

/// What is known of the peer's and the application's signs of life.
#[derive(Debug)]
pub(super) struct Liveness {
    keep_alive: Option<Duration>,
    keep_alive_timeout: Duration,
    idle_timeout: Option<Duration>,
    /// When something last came from the peer.
    heard: Instant,
    /// When something of the application's last came or went, or was under way, as far as that has been noticed.
    used: Instant,
    /// Whether the peer has sent a ping since it last answered ours: it looks after the connection.
    pinged: bool,
    /// Whether frames have come that are not about the connection alone, since `used` was set.
    active: bool,
    /// Whether it was time to close when it was last looked, before what had come by then was read.
    suspected: bool,
    /// The ping that has not been answered.
    ping: Option<Ping>,
    /// How many pings have been sent.
    pings: u64,
    /// Who waits for the answer to it.
    waiting: Vec<oneshot::Sender<Duration>>,
}

#[derive(Debug, Clone, Copy)]
struct Ping {
    number: u64,
    at: Instant,
}

/// What is to be done now.
#[derive(Debug, PartialEq, Eq)]
enum Due {
    Nothing,
    Ping,
    /// The peer is gone.
    Unheard,
    /// Nobody uses the connection.
    Unused,
}

impl Liveness {
    /// With options that are in range.
    pub(super) fn new(options: &Options) -> Self {
        let now = Instant::now();
        Self {
            keep_alive: options.keep_alive,
            keep_alive_timeout: options.keep_alive_timeout,
            idle_timeout: options.idle_timeout,
            heard: now,
            used: now,
            pinged: false,
            active: false,
            suspected: false,
            ping: None,
            pings: 0,
            waiting: Vec::new(),
        }
    }

    /// Whether times count at all.
    #[inline]
    pub(super) fn is_watching(&self) -> bool {
        self.keep_alive.is_some() || self.idle_timeout.is_some()
    }

    /// A frame has come.
    #[inline]
    pub(super) fn note(&mut self, kind: FrameKind) {
        self.active |= kind.is_of_application();
    }

    /// The peer has sent a ping.
    pub(super) fn was_pinged(&mut self) {
        self.pinged = true;
    }

    /// Something has come from the peer. At most once a turn.
    #[inline]
    pub(super) fn heard(&mut self, now: Instant) {
        self.heard = now;
        self.suspected = false;
        if self.active {
            (self.active, self.used) = (false, now);
        }
    }

    /// Something of the application's goes on.
    fn used(&mut self, now: Instant) {
        self.used = now;
    }

    /// Whether somebody waits for a round trip to be measured.
    pub(super) fn is_awaited(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Another link is there.
    pub(super) fn restart(&mut self, now: Instant) {
        (self.heard, self.suspected, self.pinged) = (now, false, false);
        // The answer to it was lost, or comes over this link; whoever waits for it waits for the next.
        self.ping = None;
    }

    /// Nobody waits any more.
    pub(super) fn end(&mut self) {
        self.waiting = Vec::new();
    }

    /// When something is to be done at the earliest, if nothing happens until then.
    pub(super) fn due(&self) -> Option<Instant> {
        [self.peer_due(), self.use_due()].into_iter().flatten().min()
    }

    /// When the peer is to be sent a ping, or has been silent for too long.
    fn peer_due(&self) -> Option<Instant> {
        let interval = self.keep_alive?;
        match self.ping {
            Some(ping) => ping.at.max(self.heard).checked_add(self.keep_alive_timeout),
            // Who gets pings need not send them, as long as they come.
            None if self.pinged => self.heard.checked_add(interval.saturating_add(interval / 4)),
            None => self.heard.checked_add(interval),
        }
    }

    fn use_due(&self) -> Option<Instant> {
        self.used.checked_add(self.idle_timeout?)
    }

    fn check(&self, now: Instant) -> Due {
        let passed = |due: Option<Instant>| due.is_some_and(|due| due <= now);
        if passed(self.use_due()) {
            return Due::Unused;
        }
        match passed(self.peer_due()) {
            false => Due::Nothing,
            true if self.ping.is_some() => Due::Unheard,
            true => Due::Ping,
        }
    }

    /// The number of a new ping.
    fn begin(&mut self, now: Instant) -> u64 {
        self.pings += 1;
        self.ping = Some(Ping { number: self.pings, at: now });
        self.pings
    }

    /// How long the answered ping took, if it is the one that was awaited.
    fn answer(&mut self, payload: &[u8], now: Instant) -> Option<Duration> {
        let ping = self.ping.filter(|ping| ping.number.to_le_bytes() == *payload)?;
        self.ping = None;
        self.pinged = false;
        Some(now.saturating_duration_since(ping.at))
    }
}

impl<L: Link> Driver<L> {
    /// The turn has brought something from the peer.
    #[inline]
    pub(super) fn note_heard(&mut self) {
        if self.liveness.is_watching() {
            let now = self.now();
            self.liveness.heard(now);
        }
    }

    /// Does what is due. Called when the timer has fired, whatever for.
    /// Returns why the link is lost, if the peer is not there any more and the session may go on over another.
    pub(super) fn check_liveness(&mut self, now: Instant) -> Option<CloseReason> {
        if self.phase.is_closing() || !self.liveness.is_watching() || self.link.is_none() {
            return None;
        }
        if self.liveness.idle_timeout.is_some() && self.is_used() {
            self.liveness.used(now);
        }
        let due = self.liveness.check(now);
        let is_late = matches!(due, Due::Unheard | Due::Unused);
        match due {
            Due::Nothing => {}
            Due::Ping => self.send_ping(now),
            // The ping has not left this side, for which `stall_timeout` is there; or nothing is read here for now.
            Due::Unheard if self.stalled.is_some() || !self.may_read() => self.liveness.heard(now),
            // Signs of life may be waiting to be read: this process may have slept, not the peer.
            _ if is_late && !std::mem::replace(&mut self.liveness.suspected, true) => {}
            Due::Unheard => {
                let waited = self.liveness.keep_alive_timeout;
                let message = format!("the peer has not answered a ping in {waited:?}");
                if self.outlives_link() {
                    return Some(CloseReason::new(CloseCode::Lost, message));
                }
                let reason = CloseReason::new(CloseCode::KeepAliveTimeout, message);
                self.close(reason.with_advice(Advice::Reconnect));
                return None;
            }
            Due::Unused => {
                let reason = CloseReason::new(CloseCode::IdleTimeout, "nothing was said for too long");
                self.close(reason.with_advice(Advice::Reconnect));
                return None;
            }
        }
        if let Some(at) = self.liveness.due() {
            self.arm_for(at);
        }
        None
    }

    /// Whether something of the application's is under way, or has been put into the outbox since this was last asked.
    fn is_used(&self) -> bool {
        self.shared.take_active() || self.shared.in_flight() > 0 || !self.inbox.is_idle()
    }

    fn send_ping(&mut self, now: Instant) {
        let number = self.liveness.begin(now);
        self.append(Cover::Sealed, Head::plain(FrameKind::Ping), &number);
        self.acknowledge_now();
        self.shared.shrink_log();
    }

    /// Sends a ping for those who want to know how long it takes, unless one is on its way.
    #[cold]
    pub(super) fn ping_for(&mut self, waiting: Vec<oneshot::Sender<Duration>>) {
        if self.phase.is_closing() {
            return;
        }
        self.liveness.waiting.extend(waiting);
        if self.liveness.ping.is_none() {
            let now = self.now();
            self.send_ping(now);
        }
        if let Some(at) = self.liveness.due() {
            self.arm_for(at);
        }
    }

    /// Takes the answer to a ping. Others are ignored.
    pub(super) fn handle_pong(&mut self, payload: &[u8]) {
        // Not the time of the turn, which may have begun before the answer came.
        let now = Instant::now();
        if let Some(took) = self.liveness.answer(payload, now) {
            self.shared.measured(took);
            for waiting in self.liveness.waiting.drain(..) {
                // Who has stopped waiting wants to know nothing.
                let _ = waiting.send(took);
            }
        }
    }
}
