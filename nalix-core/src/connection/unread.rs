//! What is kept for peers that do not read, over all connections that share a bound.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use super::driver::Driver;
use crate::{
    frame::FRAGMENT,
    link::Link,
    session::{MemoryBudget, Share},
    status::{CloseCode, CloseReason},
};

/// What one connection has of the bound.
#[derive(Debug, Default)]
pub(super) struct Unread {
    share: Share,
    /// Whether there is a bound, and whether anything of it may be taken.
    bounded: bool,
    taking: bool,
}

impl Unread {
    pub(super) fn of(budget: Arc<MemoryBudget>) -> Self {
        Self { share: Share::of(budget), bounded: true, taking: false }
    }
}

impl<L: Link> Driver<L> {
    /// Lets what is kept for a peer that does not read, or that has no link, count for a bound that other connections share.
    /// To be called before it is polled.
    pub fn share_unread(mut self, budget: Arc<MemoryBudget>) -> Self {
        self.unread = Unread::of(budget);
        self
    }

    /// Sees to it that what is kept for the peer is within the bound, if it has taken nothing for a while. Returns why the
    /// connection ends, if there is no room for it.
    ///
    /// A peer that reads owes nothing here, however slowly it does so: the bound is for those who could keep the memory as long
    /// as they like, and they are the ones who are closed when there is not enough for all.
    pub(super) fn bound_unread(&mut self) -> Option<CloseReason> {
        let since = match &self.away {
            Some(away) => Some(away.since),
            None => self.stalled,
        };
        let Some(since) = since.filter(|_| self.unread.bounded) else {
            if self.unread.taking {
                self.unread.share.shrink_to(0);
                self.unread.taking = false;
            }
            return None;
        };
        let kept = self.shared.kept_len() + self.inbox.waiting_bytes();
        let owed = kept.saturating_sub(FREE);
        if owed > 0 {
            match since.checked_add(PATIENCE) {
                Some(at) if self.now() < at => {
                    self.arm_for(at);
                    return None;
                }
                _ => {}
            }
        }
        self.unread.taking = true;
        self.unread.share.shrink_to(owed);
        if self.unread.share.grow_to(owed) {
            return None;
        }
        let reason = self.does_not_read(since);
        tracing::debug!(kept, %reason, "there is no room for what is kept for the peer");
        Some(reason)
    }

    /// Why a connection ends whose peer has taken nothing since then.
    #[cold]
    pub(super) fn does_not_read(&mut self, since: Instant) -> CloseReason {
        let (waiting, left_out) = (self.shared.waiting_len(), self.context.connection().left_out());
        let calls = self.inbox.waiting_calls();
        let quiet = self.now().saturating_duration_since(since);
        CloseReason::new(
            CloseCode::SlowConsumer,
            format!(
                "the peer has read nothing for {quiet:.1?}: {waiting} bytes and {calls} calls wait, {left_out} packets were left out"
            ),
        )
    }
}

/// As many bytes of each connection do not count: a frame that has just missed the room that there was.
const FREE: usize = FRAGMENT;
/// For how long a peer may take nothing before what is kept for it counts.
const PATIENCE: Duration = Duration::from_secs(1);
