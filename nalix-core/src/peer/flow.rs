//! One stream: what has arrived and may still arrive, what may still be sent. No I/O, and nobody is woken here.

use std::{collections::VecDeque, fmt, task::Waker, time::Duration};

use bytes::{Bytes, BytesMut};
use tokio::time::Instant;

use super::{
    budget::Budget,
    calls::{Answer, Key as CallKey},
};
use crate::{CallId, packet::Priority, session::Cover};

/// A conversation with a stream in it: in, out, or both ways.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) call: Owner,
    /// How the request has gone, and how items go.
    pub(super) cover: Cover,
    /// That of the request, if the call is ours.
    pub(super) priority: Option<Priority>,
    pub(super) incoming: Option<Receiving>,
    pub(super) outgoing: Option<Sending>,
    /// How it has ended. Items that have arrived before are still there.
    pub(super) end: Option<Ending>,
    /// How many handles there are.
    pub(super) handles: u8,
    /// Who waits for items or for the end.
    pub(super) reader: Option<Waker>,
    /// Who waits for credit.
    pub(super) writer: Option<Waker>,
    pub(super) deadline: Option<Instant>,
    /// Where the request's frame starts in the stream of bytes sent.
    pub(super) position: u64,
}

/// Whose call it belongs to.
#[derive(Debug, Clone, Copy)]
pub(super) enum Owner {
    /// Ours, so we get its stream and send its upload.
    Ours(CallKey),
    /// The peer's, of which we get the upload.
    Peers(CallId),
}

/// How a flow has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ending {
    /// The peer has answered the call for good, or has ended its upload.
    Answered(Answer),
    /// The call is over on our side.
    Over,
}

/// The receiving half of a stream.
pub(super) struct Receiving {
    /// Whole frames, each with bytes of items in it.
    queue: VecDeque<Bytes>,
    /// Small frames behind the queue, put together: a slice of the receive buffer would keep all of it.
    small: BytesMut,
    /// How many bytes there may be that have not been consumed: those that are here, on their way, or still to be sent.
    window: usize,
    /// How many bytes the peer may still send.
    credit: usize,
    /// What has been consumed and not been granted again.
    consumed: usize,
    /// When something was last granted.
    granted: Instant,
}

impl fmt::Debug for Receiving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Items may hold secrets.
        f.debug_struct("Receiving")
            .field("window", &self.window)
            .field("credit", &self.credit)
            .finish_non_exhaustive()
    }
}

/// The peer has sent items without credit.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Overdrawn;

impl Receiving {
    /// A stream whose sender has been granted `window` bytes.
    pub(super) fn new(window: usize, now: Instant) -> Self {
        Self {
            queue: VecDeque::new(),
            small: BytesMut::new(),
            window,
            credit: window,
            consumed: 0,
            granted: now,
        }
    }

    /// How many bytes there may be of it that have not been consumed.
    #[inline]
    pub(super) fn window(&self) -> usize {
        self.window
    }

    /// How many bytes more have to be consumed for something to be granted.
    pub(super) fn until_grant(&self) -> usize {
        (self.window.div_ceil(2) - self.consumed).max(1)
    }

    /// Takes the bytes of a frame in.
    ///
    /// # Errors
    /// [`Overdrawn`] if there was no credit for all of them.
    pub(super) fn push(&mut self, items: Bytes) -> Result<(), Overdrawn> {
        self.credit = self.credit.checked_sub(items.len()).ok_or(Overdrawn)?;
        if items.len() < SMALL {
            self.small.extend_from_slice(&items);
        } else {
            self.close_small();
            self.queue.push_back(items);
        }
        Ok(())
    }

    /// Hands out what has arrived. Returns whether there was anything.
    pub(super) fn take(&mut self, into: &mut VecDeque<Bytes>) -> bool {
        self.close_small();
        if into.is_empty() {
            std::mem::swap(into, &mut self.queue);
        } else {
            into.append(&mut self.queue);
        }
        !into.is_empty()
    }

    /// Notes that `n` bytes have been consumed. Returns how many to grant to the sender, if it is worth a frame.
    ///
    /// A window whose items are consumed quickly grows, one whose items are consumed slowly shrinks if others need it.
    pub(super) fn consume(
        &mut self,
        n: usize,
        budget: &mut Budget,
        now: impl FnOnce() -> Instant,
    ) -> Option<u64> {
        self.consumed += n;
        // A sender that has used up what it had waits, however little that was.
        if self.consumed < self.window.div_ceil(2) || self.consumed == 0 {
            return None;
        }
        let mut grant = std::mem::take(&mut self.consumed);
        let now = now();
        let quick = now.saturating_duration_since(self.granted) < QUICK;
        self.granted = now;
        if quick {
            let more = budget.grow(self.window);
            self.window += more;
            grant += more;
        } else {
            let less = budget.shrink(self.window, grant);
            self.window -= less;
            grant -= less;
        }
        self.credit += grant;
        (grant > 0).then_some(grant as u64)
    }

    /// Drops what nobody will consume.
    pub(super) fn clear(&mut self) {
        self.queue = VecDeque::new();
        self.small = BytesMut::new();
    }

    fn close_small(&mut self) {
        if !self.small.is_empty() {
            self.queue.push_back(self.small.split().freeze());
        }
    }
}

/// The sending half of an upload.
pub(super) struct Sending {
    /// How many bytes may still be sent.
    credit: usize,
    /// From how many bytes on the items of a frame are compressed.
    pub(super) compress: Option<usize>,
    /// Items that wait to become frames, behind `at` bytes that have become some. The last of them may go beyond the
    /// credit, and waits for more.
    pending: Vec<u8>,
    at: usize,
    /// Whether nothing may be sent yet, since the request waits for its turn or goes in fragments.
    pub(super) held: bool,
    /// Whether it is in the list of those that have something to send.
    pub(super) listed: bool,
    /// Whether the peer wants no more.
    pub(super) stopped: bool,
    /// Whether its end has been said. What comes behind the items that wait then, if some do.
    pub(super) finished: bool,
    pub(super) end: Option<Vec<u8>>,
}

impl fmt::Debug for Sending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sending").field("credit", &self.credit).finish_non_exhaustive()
    }
}

/// The peer has granted more than can be counted.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooMuchCredit;

impl Sending {
    pub(super) fn new(window: usize, compress: Option<usize>, held: bool) -> Self {
        Self {
            credit: window,
            compress,
            pending: Vec::new(),
            at: 0,
            held,
            listed: false,
            stopped: false,
            finished: false,
            end: None,
        }
    }

    /// How many bytes wait, for their turn or for credit.
    #[inline]
    pub(super) fn waiting(&self) -> usize {
        self.pending.len() - self.at
    }

    /// Whether another item may be put behind those that wait: not before there is credit for all of them.
    #[inline]
    pub(super) fn may_put(&self) -> bool {
        self.waiting() < self.credit
    }

    /// How many bytes may become frames right now.
    #[inline]
    pub(super) fn sendable(&self) -> usize {
        if self.held { 0 } else { self.waiting().min(self.credit) }
    }

    /// Whether there is something to send right now.
    #[inline]
    pub(super) fn is_ready(&self) -> bool {
        self.sendable() > 0 || (self.end.is_some() && !self.held && self.waiting() == 0)
    }

    /// Puts an item behind those that wait. The buffer is given back for the next.
    #[inline]
    pub(super) fn put(&mut self, item: &mut Vec<u8>) {
        if self.at > self.waiting() {
            // What has gone must not take more memory than what waits.
            self.pending.drain(..self.at);
            self.at = 0;
        }
        if self.pending.is_empty() && item.len() > SMALL {
            std::mem::swap(&mut self.pending, item);
        } else {
            self.pending.extend_from_slice(item);
        }
    }

    /// Takes the next bytes, `most` of them, for a frame. `f` is given them.
    pub(super) fn send<T>(&mut self, most: usize, f: impl FnOnce(&[u8]) -> T) -> T {
        let n = self.sendable().min(most);
        let sent = f(&self.pending[self.at..self.at + n]);
        self.at += n;
        self.credit -= n;
        if self.at == self.pending.len() {
            self.discard();
        }
        sent
    }

    /// Drops what waits.
    pub(super) fn discard(&mut self) {
        self.at = 0;
        if self.pending.capacity() > KEEP_PENDING {
            self.pending = Vec::new();
        } else {
            self.pending.clear();
        }
    }

    /// The peer has granted more.
    ///
    /// # Errors
    /// [`TooMuchCredit`] if it would be more than [`MAX_CREDIT`].
    pub(super) fn grant(&mut self, n: u64) -> Result<(), TooMuchCredit> {
        self.credit = granted(self.credit, n).ok_or(TooMuchCredit)?;
        Ok(())
    }
}

/// `credit` and `n` more; `None` if that is more than [`MAX_CREDIT`].
pub(crate) fn granted(credit: usize, n: u64) -> Option<usize> {
    let sum = (credit as u64).checked_add(n)?;
    if sum > MAX_CREDIT {
        return None;
    }
    usize::try_from(sum).ok()
}

/// Frames below this are copied, so that they do not keep the receive buffer.
const SMALL: usize = 4 * 1024;
/// The most that may be granted and not used, in bytes.
const MAX_CREDIT: u64 = u32::MAX as u64;
/// A buffer for an upload that has grown beyond this is not kept, in bytes.
const KEEP_PENDING: usize = 64 * 1024;
/// Half a window that is consumed within this time has been consumed quickly: a window brings that much in a round trip, and
/// few take longer.
const QUICK: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
