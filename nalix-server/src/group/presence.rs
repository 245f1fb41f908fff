//! Who comes and goes.

use std::{
    fmt,
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures_core::Stream;

use super::{Member, room::Room};
use crate::event_queue::{EventQueue, Next};

/// A change among the members of a group.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum PresenceEvent {
    /// A connection has joined.
    Joined(Member),
    /// A connection has left, or has ended.
    Left(Member),
    /// A member has lost its link. It is still a member: its session is kept for another link, and what is sent to it waits.
    Away(Member),
    /// A member that was away has a link again.
    Back(Member),
    /// This many events that came before the next one have been dropped, since nobody took them in time. What the
    /// members are now is in [`Group::members`](crate::Group::members).
    Missed(u64),
}

/// What a subscription has not taken yet.
pub(super) type Queue = EventQueue<PresenceEvent>;

/// A subscription to who comes and goes in a group, in the order in which that happens. Each membership is one
/// [`PresenceEvent::Joined`] and one [`PresenceEvent::Left`], with [`PresenceEvent::Away`] and [`PresenceEvent::Back`] in turns
/// in between. A [`Stream`] of them, which never ends.
///
/// It holds so many events as it was told to; then the oldest is dropped for each that comes, and the next call says how
/// many. It keeps the group, also while that has no members.
pub struct Presence {
    room: Arc<Room>,
    queue: Arc<Queue>,
}

impl fmt::Debug for Presence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Presence").field("waiting", &self.queue.len()).finish_non_exhaustive()
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
        self.queue.take().map(PresenceEvent::from)
    }

    /// Only the last who has polled is woken, which is why it takes `&mut self`.
    #[expect(clippy::needless_pass_by_ref_mut, reason = "one waits at a time")]
    fn poll(&mut self, cx: &Context<'_>) -> Poll<PresenceEvent> {
        self.queue.poll(cx).map(PresenceEvent::from)
    }
}

impl Stream for Presence {
    type Item = PresenceEvent;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<PresenceEvent>> {
        self.get_mut().poll(cx).map(Some)
    }
}

impl From<Next<PresenceEvent>> for PresenceEvent {
    fn from(next: Next<PresenceEvent>) -> Self {
        match next {
            Next::Event(event) => event,
            Next::Missed(missed) => PresenceEvent::Missed(missed),
        }
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.room.unwatch(&self.queue);
    }
}
