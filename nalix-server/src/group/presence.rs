//! Who comes and goes.

use std::{
    collections::VecDeque,
    fmt,
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use futures_core::Stream;

use super::{Member, room::Room};
use crate::sync::{Guard, Mutex};

/// A change among the members of a group.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum PresenceEvent {
    /// A connection has joined.
    Joined(Member),
    /// A connection has left, or has ended.
    Left(Member),
    /// This many events that came before the next one have been dropped, since nobody took them in time. What the
    /// members are now is in [`Group::members`](crate::Group::members).
    Missed(u64),
}

/// A subscription to who comes and goes in a group, in the order in which that happens. Each membership is one
/// [`PresenceEvent::Joined`] and one [`PresenceEvent::Left`]. A [`Stream`] of them, which never ends.
///
/// It holds so many events as it was told to; then the oldest is dropped for each that comes, and the next call says how
/// many. It keeps the group, also while that has no members.
pub struct Presence {
    room: Arc<Room>,
    queue: Arc<Queue>,
}

impl fmt::Debug for Presence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Presence").field("waiting", &self.queue.lock().events.len()).finish_non_exhaustive()
    }
}

impl Presence {
    pub(super) fn new(room: Arc<Room>, queue: Arc<Queue>) -> Self {
        Self { room, queue }
    }

    /// Waits for the next event. Cancel safe.
    pub async fn next(&mut self) -> PresenceEvent {
        poll_fn(|cx| self.poll(cx)).await
    }

    /// The next event, if it has come.
    #[expect(clippy::needless_pass_by_ref_mut, reason = "one takes at a time")]
    pub fn try_next(&mut self) -> Option<PresenceEvent> {
        self.queue.lock().take()
    }

    /// Only the last who has polled is woken, which is why it takes `&mut self`.
    #[expect(clippy::needless_pass_by_ref_mut, reason = "one waits at a time")]
    fn poll(&mut self, cx: &Context<'_>) -> Poll<PresenceEvent> {
        let mut inner = self.queue.lock();
        if let Some(event) = inner.take() {
            return Poll::Ready(event);
        }
        let old = inner.waker.replace(cx.waker().clone());
        drop(inner);
        drop(old);
        Poll::Pending
    }
}

impl Stream for Presence {
    type Item = PresenceEvent;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<PresenceEvent>> {
        self.get_mut().poll(cx).map(Some)
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.room.unwatch(&self.queue);
    }
}

/// What a subscription has not taken yet.
pub(super) struct Queue {
    capacity: usize,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    events: VecDeque<PresenceEvent>,
    missed: u64,
    waker: Option<Waker>,
}

impl Queue {
    pub(super) fn new(capacity: usize) -> Self {
        Self { capacity: capacity.max(1), inner: Mutex::default() }
    }

    /// Adds an event, and puts the one that is dropped for it into `dropped`. Returns whom to wake.
    pub(super) fn push(&self, event: PresenceEvent, dropped: &mut Vec<PresenceEvent>) -> Option<Waker> {
        let mut inner = self.lock();
        if inner.events.len() >= self.capacity {
            inner.missed += 1;
            dropped.extend(inner.events.pop_front());
        }
        inner.events.push_back(event);
        inner.waker.take()
    }

    fn lock(&self) -> Guard<'_, Inner> {
        self.inner.lock()
    }
}

impl Inner {
    fn take(&mut self) -> Option<PresenceEvent> {
        match std::mem::take(&mut self.missed) {
            0 => self.events.pop_front(),
            missed => Some(PresenceEvent::Missed(missed)),
        }
    }
}
