//! The driver's way out: from the outbox to the link.

use std::{
    io,
    task::{Context, Poll},
};

use super::{driver::Driver, phase::Phase};
use crate::{
    frame::{Control, FRAGMENT, FrameKind, Head},
    link::Link,
    packet::Priority,
    session::{Cover, Outbound},
    status::{Advice, CloseCode, CloseReason},
    wire::{Encode, Writer},
};

impl<L: Link> Driver<L> {
    /// Whether the outbox has room for something of this priority, so that another call of it may be started.
    #[inline]
    pub(super) fn has_room(&self, priority: Priority) -> bool {
        // What waits may be of other priorities, which is rare, and needs a look.
        self.backlog < self.options.outbox || self.shared.backlog_for(priority) < self.options.outbox
    }

    /// Whether there is room now for one of those who were short of it. They are not short any more then.
    pub(super) fn room_has_come(&mut self) -> bool {
        if self.short == Short::default() {
            return false;
        }
        let has_room = |priority| self.short.is_set(priority) && self.has_room(priority);
        let come = Priority::ALL.into_iter().any(has_room) || self.extra_call.is_due(self.written);
        if come {
            self.short = Short::default();
        }
        come
    }

    /// Writes what waits. Ready when it is written, pending while the link takes no more.
    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), CloseReason>> {
        if self.writing.is_empty() && !self.must_look {
            return Poll::Ready(Ok(()));
        }
        if self.link.is_none() {
            // What there is to send waits for another link.
            self.rest_without_link(cx);
            return Poll::Pending;
        }
        let mut done = false;
        let mut more = false;
        let mut taken = 0;
        loop {
            while let Some(rest) = self.writing.get(self.at..).filter(|rest| !rest.is_empty()) {
                let Some(link) = &mut self.link else { return Poll::Pending };
                match link.poll_write(cx, rest) {
                    Poll::Ready(Ok(0)) => return Poll::Ready(Err(lost(&io::ErrorKind::WriteZero.into()))),
                    Poll::Ready(Ok(n)) => {
                        self.at += n;
                        self.written += n as u64;
                        if self.stalled.take().is_some() && self.liveness.is_watching() {
                            // There is room again since the peer's side has taken something.
                            let now = self.now();
                            self.liveness.heard(now);
                        }
                    }
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(lost(&error))),
                    Poll::Pending => {
                        if self.stalled.is_none() {
                            self.stalled = Some(self.now());
                        }
                        let rest = self.shared.blocked(self.writing.len() - self.at);
                        self.backlog = rest.backlog;
                        self.must_look = rest.again;
                        if let Some(deadline) = rest.deadline {
                            self.arm_for(deadline);
                        }
                        if rest.again {
                            cx.waker().wake_by_ref();
                        }
                        return Poll::Pending;
                    }
                }
            }
            if !self.writing.is_empty() {
                self.shared.wrote_all();
            }
            self.at = 0;
            self.writing.clear();
            self.backlog = 0;
            if done {
                // Whoever has appended something meanwhile has also woken this task.
                return Poll::Ready(Ok(()));
            }
            if more && taken >= MAX_FLUSH {
                // What comes in by now must not wait until the last fragment has gone.
                self.must_look = true;
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            if self.writing.capacity() > KEEP_BUFFER {
                self.writing = Vec::new();
            }
            let rest = self.shared.take_output(&mut self.writing);
            self.must_look = rest.again;
            if rest.again {
                cx.waker().wake_by_ref();
            }
            if let Some(deadline) = rest.deadline {
                self.arm_for(deadline);
            }
            if rest.exhausted {
                return Poll::Ready(Err(worn_out()));
            }
            more = rest.more;
            taken += self.writing.len();
            // Much counts as waiting until the outbox is looked at again.
            done = rest.backlog == 0 && !more;
        }
    }

    fn rest_without_link(&mut self, cx: &Context<'_>) {
        let rest = self.shared.blocked(0);
        (self.backlog, self.must_look) = (rest.backlog, rest.again);
        if let Some(deadline) = rest.deadline {
            self.arm_for(deadline);
        }
        if rest.again {
            cx.waker().wake_by_ref();
        }
    }

    /// Goes on with a close that this side has begun.
    pub(super) fn poll_close(&mut self, cx: &mut Context<'_>, flushed: bool) -> Option<CloseReason> {
        if let Phase::Closing { reason, until } = &self.phase
            && flushed
        {
            let closed = match &mut self.link {
                Some(link) => link.poll_close(cx),
                None => Poll::Ready(Ok(())),
            };
            match closed {
                Poll::Pending => return None,
                Poll::Ready(Err(_)) => return Some(reason.clone()),
                Poll::Ready(Ok(())) => {
                    let (reason, until) = (reason.clone(), *until);
                    // All is written: no more than the peer's end of input is waited for.
                    let soon = self.now().checked_add(self.options.close_timeout);
                    let until = [until, soon].into_iter().flatten().min();
                    self.phase = Phase::Lingering { reason, until };
                    // The peer's end of input may be there already, and nobody else would look.
                    cx.waker().wake_by_ref();
                }
            }
        }
        None
    }

    pub(super) fn append_control(&mut self, control: &Control) {
        self.append(Cover::Sealed, Head::plain(FrameKind::Control), control);
    }

    /// Appends a frame that cannot be too large.
    pub(super) fn append(&mut self, cover: Cover, head: Head, payload: &impl Encode) {
        self.must_look = true;
        self.backlog = self.shared.append(|out| put(out, cover, head, payload));
    }
}

/// Which priorities wait only for room in the outbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Short(u8);

impl Short {
    pub(super) fn set(&mut self, priority: Priority) {
        self.0 |= 1 << priority.index();
    }

    pub(super) fn is_set(self, priority: Priority) -> bool {
        self.0 & (1 << priority.index()) != 0
    }
}

impl std::ops::BitOrAssign for Short {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

/// When calls, or streams, may go on although the outbox has no room for them: once for each frame's worth of bytes that has
/// been written. A user who sends packets without end fills up whatever room there comes, and they must get on beside that,
/// too. If the peer does not read, nothing is written.
#[derive(Debug, Default)]
pub(super) struct Extra {
    /// How many bytes had been written when it was last taken.
    at: u64,
}

impl Extra {
    /// Whether it may be taken, after so many bytes have been written.
    #[inline]
    pub(super) fn is_due(&self, written: u64) -> bool {
        written - self.at >= FRAGMENT as u64
    }

    /// It has been taken.
    pub(super) fn taken(&mut self, written: u64) {
        self.at = written;
    }
}

/// Appends a frame of our own, which is never too large.
pub(super) fn put(out: &mut Outbound, cover: Cover, head: Head, payload: &impl Encode) {
    if let Err(error) = out.append_error(cover, head, payload.size_hint(), |w| payload.encode(w)) {
        tracing::error!(%error, "a frame of our own cannot be sent");
    }
}

/// Appends a control message behind everything else that is there.
pub(super) fn put_last(out: &mut Outbound, control: &Control) {
    let mut payload = Vec::new();
    control.encode(&mut Writer::new(&mut payload, usize::MAX));
    out.append_last(Cover::Sealed, Head::plain(FrameKind::Control), payload);
}

/// What it is called when the link breaks.
pub(super) fn lost(error: &io::Error) -> CloseReason {
    CloseReason::new(CloseCode::Lost, error.to_string())
}

/// Why a connection ends whose key has sealed all that it may.
#[cold]
fn worn_out() -> CloseReason {
    CloseReason::new(CloseCode::LimitExceeded, "the connection's key is worn out")
        .with_advice(Advice::Reconnect)
}

/// After how many bytes to read again while messages go in fragments.
const MAX_FLUSH: usize = 256 * 1024;
/// A buffer that has grown beyond this for once is not kept.
const KEEP_BUFFER: usize = 256 * 1024;
