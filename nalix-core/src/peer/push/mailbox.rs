//! A bounded queue that says how much it has left out.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use thiserror::Error;

use super::table::{AnyPacket, Taker};

/// How many packets wait for a subscriber, and which are left out if it is too slow for them.
///
/// ```
/// use nalix_core::{Lag, Queue};
///
/// assert_eq!(Queue::latest(), Queue::new(1, Lag::Latest));
/// assert_eq!(Queue::drop_newest(16), Queue::new(16, Lag::DropNewest));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Queue {
    pub(super) capacity: usize,
    pub(super) lag: Lag,
}

impl Queue {
    /// A queue for `capacity` packets, at least 1. [`Lag::Latest`] has room for one, whatever is said here.
    ///
    /// Memory is taken as packets come. Too few lose packets in every burst; many let a subscriber that has stopped
    /// reading keep that many decoded packets in memory.
    pub const fn new(capacity: usize, lag: Lag) -> Self {
        let one = capacity == 0 || matches!(lag, Lag::Latest);
        Self { capacity: if one { 1 } else { capacity }, lag }
    }

    /// Keeps the last `capacity` packets.
    pub const fn drop_oldest(capacity: usize) -> Self {
        Self::new(capacity, Lag::DropOldest)
    }

    /// Keeps the first `capacity` packets.
    pub const fn drop_newest(capacity: usize) -> Self {
        Self::new(capacity, Lag::DropNewest)
    }

    /// Keeps the last packet.
    pub const fn latest() -> Self {
        Self::new(1, Lag::Latest)
    }
}

/// Which packets are left out when a subscriber's queue is full. The connection never waits for a subscriber.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Lag {
    /// The one that has waited longest. The default: for events, whose newest matter most.
    #[default]
    DropOldest,
    /// The one that has just come: for a beginning that matters more than what follows.
    DropNewest,
    /// All but the last: for a state that each packet describes anew. That some were left out is the purpose and no
    /// news, so it is counted by [`Subscription::missed`](super::Subscription::missed) only.
    Latest,
}

/// Packets were left out at this place, since the subscriber was too slow. The subscription goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("missed {missed} packets: the subscriber was too slow")]
#[non_exhaustive]
pub struct Lagged {
    /// How many.
    pub missed: u64,
}

/// What a subscription and the table share.
pub(super) struct Mailbox<T> {
    queue: Queue,
    state: Mutex<State<T>>,
}

struct State<T> {
    waiting: VecDeque<Waiting<T>>,
    /// How many have been left out behind the last that waits.
    gap: u64,
    missed: u64,
    reader: Option<Waker>,
    ended: bool,
}

struct Waiting<T> {
    /// How many have been left out before this one.
    gap: u64,
    packet: Arc<T>,
}

impl<T> fmt::Debug for Mailbox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("Mailbox")
            .field("queue", &self.queue)
            .field("waiting", &state.waiting.len())
            .field("missed", &state.missed)
            .field("ended", &state.ended)
            .finish()
    }
}

impl<T> Mailbox<T> {
    pub(super) fn new(queue: Queue) -> Self {
        let state = State { waiting: VecDeque::new(), gap: 0, missed: 0, reader: None, ended: false };
        Self { queue, state: Mutex::new(state) }
    }

    fn put(&self, packet: Arc<T>) {
        let mut state = self.lock();
        let left_out = state.put(packet, self.queue);
        let reader = state.reader.take();
        drop(state);
        if let Some(reader) = reader {
            reader.wake();
        }
        // Last, since its destructor is user code and may panic.
        drop(left_out);
    }

    /// The next packet or gap, `None` at the end.
    pub(super) fn poll(&self, cx: &Context<'_>) -> Poll<Option<Result<Arc<T>, Lagged>>> {
        let mut state = self.lock();
        match state.next() {
            Some(next) => Poll::Ready(Some(next)),
            None if state.ended => Poll::Ready(None),
            None => {
                match &mut state.reader {
                    Some(reader) => reader.clone_from(cx.waker()),
                    reader => *reader = Some(cx.waker().clone()),
                }
                Poll::Pending
            }
        }
    }

    pub(super) fn try_next(&self) -> Option<Result<Arc<T>, Lagged>> {
        self.lock().next()
    }

    pub(super) fn missed(&self) -> u64 {
        self.lock().missed
    }

    /// Lets the reader have what waits, and then no more.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.ended = true;
        let reader = state.reader.take();
        drop(state);
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Send + Sync + 'static> Taker for Mailbox<T> {
    fn take(&self, packet: &AnyPacket) {
        if let Ok(packet) = Arc::clone(packet).downcast() {
            self.put(packet);
        }
    }

    fn end(&self) {
        self.close();
    }
}

impl<T> State<T> {
    /// Queues a packet. Returns the one that had to be left out, if one had.
    fn put(&mut self, packet: Arc<T>, queue: Queue) -> Option<Arc<T>> {
        if self.waiting.len() < queue.capacity {
            let gap = std::mem::take(&mut self.gap);
            self.waiting.push_back(Waiting { gap, packet });
            return None;
        }
        self.missed += 1;
        match queue.lag {
            Lag::DropNewest => {
                self.gap += 1;
                Some(packet)
            }
            Lag::DropOldest => {
                let oldest = self.waiting.pop_front()?;
                let gap = oldest.gap + 1;
                match self.waiting.front_mut() {
                    Some(first) => {
                        first.gap += gap;
                        self.waiting.push_back(Waiting { gap: 0, packet });
                    }
                    None => self.waiting.push_back(Waiting { gap, packet }),
                }
                Some(oldest.packet)
            }
            Lag::Latest => {
                let last = self.waiting.back_mut()?;
                Some(std::mem::replace(&mut last.packet, packet))
            }
        }
    }

    fn next(&mut self) -> Option<Result<Arc<T>, Lagged>> {
        let gap = match self.waiting.front_mut() {
            Some(first) => &mut first.gap,
            None => &mut self.gap,
        };
        if *gap > 0 {
            return Some(Err(Lagged { missed: std::mem::take(gap) }));
        }
        self.waiting.pop_front().map(|first| Ok(first.packet))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Puts and reads in every pattern of so many steps: what is read and what is missed together are all that was put,
    /// each at its place.
    #[test]
    fn a_gap_is_told_where_it_is_and_as_long_as_it_is() {
        for lag in [Lag::DropOldest, Lag::DropNewest] {
            for capacity in 0..4 {
                for pattern in 0u32..1 << 12 {
                    let mailbox = Mailbox::new(Queue::new(capacity, lag));
                    let (mut put, mut read, mut missed) = (0u64, 0, 0);
                    let mut check = |next: Option<Result<Arc<u64>, Lagged>>| {
                        match &next {
                            Some(Ok(packet)) => {
                                assert_eq!(**packet, read);
                                read += 1;
                            }
                            Some(Err(Lagged { missed: n })) => {
                                assert!(*n > 0);
                                (read, missed) = (read + n, missed + n);
                            }
                            None => {}
                        }
                        next.is_some()
                    };
                    for step in 0..12 {
                        if pattern & 1 << step == 0 {
                            mailbox.put(Arc::new(put));
                            put += 1;
                        } else {
                            check(mailbox.try_next());
                        }
                        assert!(mailbox.lock().waiting.len() <= capacity.max(1));
                    }
                    while check(mailbox.try_next()) {}
                    assert_eq!((read, missed), (put, mailbox.missed()));
                }
            }
        }
    }

    #[test]
    fn the_latest_is_the_last_one_put_and_no_gap_is_told() {
        let mailbox = Mailbox::new(Queue::latest());
        for n in 0..10 {
            mailbox.put(Arc::new(n));
            if n == 3 {
                assert_eq!(mailbox.try_next(), Some(Ok(Arc::new(3))));
            }
        }
        assert_eq!(mailbox.try_next(), Some(Ok(Arc::new(9))));
        assert_eq!((mailbox.try_next(), mailbox.missed()), (None, 3 + 5));
    }

    #[test]
    fn what_waits_at_the_end_comes_before_the_end() {
        let cx = &Context::from_waker(Waker::noop());
        let mailbox = Mailbox::new(Queue::drop_newest(1));
        assert!(mailbox.poll(cx).is_pending());
        mailbox.put(Arc::new(1));
        mailbox.put(Arc::new(2));
        mailbox.close();
        assert_eq!(mailbox.poll(cx), Poll::Ready(Some(Ok(Arc::new(1)))));
        assert_eq!(mailbox.poll(cx), Poll::Ready(Some(Err(Lagged { missed: 1 }))));
        assert_eq!(mailbox.poll(cx), Poll::Ready(None));
        assert_eq!(mailbox.poll(cx), Poll::Ready(None));
    }
}
