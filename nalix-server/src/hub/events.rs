//! Who comes to a server and goes.

use std::{
    fmt,
    future::poll_fn,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use futures_core::Stream;
use nalix_core::{CloseReason, Connection, ConnectionId};

use crate::{
    event_queue::{EventQueue, Next},
    sync::RwLock,
};

/// A change among the connections of a server.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum HubEvent {
    /// A connection is open.
    Opened(Connection),
    /// A connection has lost its link, and its session is kept for another.
    Detached(Connection),
    /// A connection that had lost its link has another.
    Resumed(Connection),
    /// A connection has ended, and its hooks have run.
    Ended {
        /// Which.
        id: ConnectionId,
        /// Why; `None` if its task was cut off.
        reason: Option<CloseReason>,
    },
    /// One was turned away since there are as many as there may be. This comes once, and again when there has been
    /// room in between.
    Full,
    /// This many events that came before the next one have been dropped, since nobody took them in time. Who is there now is
    /// in [`Hub::connections`](crate::Hub::connections).
    Missed(u64),
}

/// A subscription to who comes to a server and goes, from [`Hub::watch`](crate::Hub::watch). A [`Stream`] that never ends.
///
/// It holds so many events as it was told to; then the oldest is dropped for each that comes, and the next call says how
/// many.
pub struct HubEvents {
    watchers: Arc<Watchers>,
    queue: Arc<EventQueue<HubEvent>>,
}

impl fmt::Debug for HubEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HubEvents").field("waiting", &self.queue.len()).finish_non_exhaustive()
    }
}

impl HubEvents {
    /// Waits for the next event. Cancel safe.
    pub async fn next(&mut self) -> HubEvent {
        poll_fn(|cx| self.poll(cx)).await
    }

    /// The next event, if it has come.
    #[expect(clippy::needless_pass_by_ref_mut, reason = "one takes at a time")]
    pub fn try_next(&mut self) -> Option<HubEvent> {
        self.queue.take().map(HubEvent::from)
    }

    #[expect(clippy::needless_pass_by_ref_mut, reason = "only the last who has polled is woken")]
    fn poll(&mut self, cx: &Context<'_>) -> Poll<HubEvent> {
        self.queue.poll(cx).map(HubEvent::from)
    }
}

impl Stream for HubEvents {
    type Item = HubEvent;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<HubEvent>> {
        self.get_mut().poll(cx).map(Some)
    }
}

impl Drop for HubEvents {
    fn drop(&mut self) {
        let mut queues = self.watchers.queues.write();
        queues.retain(|queue| !Arc::ptr_eq(queue, &self.queue));
        self.watchers.count.store(queues.len(), Ordering::Relaxed);
    }
}

impl From<Next<HubEvent>> for HubEvent {
    fn from(next: Next<HubEvent>) -> Self {
        match next {
            Next::Event(event) => event,
            Next::Missed(missed) => HubEvent::Missed(missed),
        }
    }
}

/// Those who are to be told.
pub(super) struct Watchers {
    /// How many queues there are, so that nobody takes a lock when there are none.
    count: AtomicUsize,
    queues: RwLock<Vec<Arc<EventQueue<HubEvent>>>>,
    /// Whether one was turned away, and none has gone since.
    full: AtomicBool,
}

impl Watchers {
    pub(super) fn new() -> Self {
        Self { count: AtomicUsize::new(0), queues: RwLock::new(Vec::new()), full: AtomicBool::new(false) }
    }

    pub(super) fn watch(self: &Arc<Self>, capacity: usize) -> HubEvents {
        let queue = Arc::new(EventQueue::new(capacity));
        let mut queues = self.queues.write();
        queues.push(Arc::clone(&queue));
        self.count.store(queues.len(), Ordering::Relaxed);
        drop(queues);
        HubEvents { watchers: Arc::clone(self), queue }
    }

    #[inline]
    pub(super) fn tell(&self, event: impl FnOnce() -> HubEvent) {
        if self.count.load(Ordering::Relaxed) > 0 {
            self.tell_all(&event());
        }
    }

    pub(super) fn full(&self) {
        if !self.full.swap(true, Ordering::Relaxed) {
            self.tell(|| HubEvent::Full);
        }
    }

    pub(super) fn not_full(&self) {
        // Most of the time it is not, and nobody has to hear of that.
        if self.full.load(Ordering::Relaxed) {
            self.full.store(false, Ordering::Relaxed);
        }
    }

    #[cold]
    fn tell_all(&self, event: &HubEvent) {
        // What is dropped may be the last handle of a connection, with a user's values on it: not under the lock.
        let mut dropped = Vec::new();
        let queues = self.queues.read();
        let wakers: Vec<_> =
            queues.iter().filter_map(|queue| queue.push(event.clone(), &mut dropped)).collect();
        drop(queues);
        wakers.into_iter().for_each(std::task::Waker::wake);
    }
}
