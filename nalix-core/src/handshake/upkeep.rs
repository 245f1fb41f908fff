//! Keeping what a store holds of a session up to date.

use std::{
    collections::HashMap,
    fmt,
    hash::{BuildHasher, RandomState},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    runtime::Handle,
    sync::{Notify, watch},
    time::{Instant, timeout},
};

use super::{SessionData, SessionId, SessionRecord, SessionStore, TicketId};

/// The sessions of a server whose store does not have their last changes yet. Nobody may resume one meanwhile: it would come
/// back as it was before, with a permission that has been taken away.
#[derive(Default)]
pub(crate) struct Unsaved {
    sessions: Mutex<HashMap<TicketId, Arc<Upkeep>>>,
    /// Those that wait after a failure are to try now.
    hurry: Notify,
}

/// A session under one ticket, and the changes to it that a task writes to the store.
pub(crate) struct Upkeep {
    store: Arc<dyn SessionStore>,
    unsaved: Arc<Unsaved>,
    ticket: TicketId,
    session: SessionId,
    state: Mutex<State>,
    progress: watch::Sender<Progress>,
    /// From when on the ticket is certainly good for nothing.
    until: Option<Instant>,
    runtime: Handle,
}

struct State {
    record: SessionRecord,
    changes: u64,
    saving: bool,
}

/// Numbers of changes.
#[derive(Debug, Clone, Copy, Default)]
struct Progress {
    /// The store has been asked to take these.
    tried: u64,
    /// It has these.
    kept: u64,
    /// It has not taken the last.
    failing: bool,
}

impl Unsaved {
    /// The session under this ticket, if it has changes that the store has not.
    pub(crate) fn get(&self, ticket: TicketId) -> Option<Arc<Upkeep>> {
        self.lock().get(&ticket).map(Arc::clone)
    }

    /// Waits until the store has everything. Those that wait after a failure try at once.
    pub(crate) async fn settled(&self) {
        self.hurry.notify_waiters();
        loop {
            let Some(upkeep) = self.lock().values().next().map(Arc::clone) else { return };
            upkeep.settled().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TicketId, Arc<Upkeep>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Unsaved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unsaved").finish_non_exhaustive()
    }
}

impl Upkeep {
    /// Of a session that the store is about to have under this ticket, which is good for `lifetime`.
    pub(crate) fn new(
        store: Arc<dyn SessionStore>,
        unsaved: Arc<Unsaved>,
        ticket: TicketId,
        record: SessionRecord,
        lifetime: Duration,
    ) -> Arc<Self> {
        Arc::new(Self {
            store,
            unsaved,
            ticket,
            session: record.session,
            state: Mutex::new(State { record, changes: 0, saving: false }),
            progress: watch::Sender::default(),
            until: Instant::now().checked_add(lifetime.saturating_add(MARGIN)),
            runtime: Handle::current(),
        })
    }

    pub(crate) fn session(&self) -> SessionId {
        self.session
    }

    /// Looks at what is kept.
    pub(crate) fn read<T>(&self, f: impl FnOnce(&SessionData) -> T) -> T {
        f(&self.lock().record.data)
    }

    /// Changes what is kept, and has it written if `f` says that there is something to write.
    pub(crate) fn change<E>(
        self: &Arc<Self>,
        f: impl FnOnce(&mut SessionData) -> Result<bool, E>,
    ) -> Result<bool, E> {
        let mut state = self.lock();
        let changed = f(&mut state.record.data)?;
        if changed {
            state.changes += 1;
            if !std::mem::replace(&mut state.saving, true) {
                self.unsaved.lock().insert(self.ticket, Arc::clone(self));
                self.runtime.spawn(save(Saving { upkeep: Arc::clone(self), ended: false }));
            }
        }
        Ok(changed)
    }

    /// Waits until the store has been asked to take all changes until now, and says whether it has them. Does not wait for one
    /// that fails.
    pub(crate) async fn saved(&self) -> bool {
        let wanted = self.lock().changes;
        let mut progress = self.progress.subscribe();
        let known = progress.wait_for(|progress| progress.failing || progress.tried >= wanted).await;
        // The sender lives as long as `self`.
        known.is_ok_and(|progress| progress.kept >= wanted)
    }

    /// Waits until there is nothing to write.
    async fn settled(&self) {
        let mut progress = self.progress.subscribe();
        while self.lock().saving && progress.changed().await.is_ok() {}
    }

    fn forget(&self, state: &mut State) {
        state.saving = false;
        self.unsaved.lock().remove(&self.ticket);
    }

    fn is_over(&self) -> bool {
        self.until.is_some_and(|until| until <= Instant::now())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The task that writes a session's changes. Whatever becomes of it, another may follow.
struct Saving {
    upkeep: Arc<Upkeep>,
    ended: bool,
}

impl Saving {
    /// Ends the task unless there are more changes than these. From then on another task may have taken its place.
    fn end(&mut self, changes: u64) {
        let mut state = self.upkeep.lock();
        if state.changes == changes {
            self.ended = true;
            self.upkeep.forget(&mut state);
        }
    }
}

/// Writes to the store until it has everything, or the ticket is good for nothing. It goes on when the connection has ended:
/// until then the store would give back what has been taken away. A store that is gone hands out no tickets, so no more tasks
/// wait for it than there were sessions when it went.
async fn save(mut saving: Saving) {
    let upkeep = Arc::clone(&saving.upkeep);
    let mut failures = 0;
    loop {
        let (record, changes) = {
            let state = upkeep.lock();
            (state.record.clone(), state.changes)
        };
        let taken = upkeep.store.update(upkeep.ticket, record).await;
        if let Err(error) = &taken {
            if failures == 0 {
                tracing::warn!(%error, session = %upkeep.session, "a session was not saved, and will be");
            }
            if !upkeep.is_over() {
                upkeep.progress.send_modify(|progress| {
                    (progress.tried, progress.failing) = (changes, true);
                });
                drop(timeout(delay(failures), upkeep.unsaved.hurry.notified()).await);
                failures = failures.saturating_add(1);
                continue;
            }
        }
        failures = 0;
        let kept = matches!(taken, Ok(true));
        if !kept {
            // The session has gone on elsewhere, or has been revoked or forgotten.
            tracing::debug!(session = %upkeep.session, "a session is not kept any more");
        }
        // Before anybody is told, who may look whether it waits.
        saving.end(changes);
        upkeep.progress.send_modify(|progress| {
            (progress.tried, progress.failing) = (changes, false);
            if kept {
                progress.kept = changes;
            }
        });
        if saving.ended {
            return;
        }
    }
}

/// How long to wait after so many failures: more each time, and not together with all others whose store has failed.
fn delay(failures: u32) -> Duration {
    let longest = FIRST_DELAY.saturating_mul(1 << failures.min(16)).min(LONGEST_DELAY);
    // Half of it at least. `RandomState` differs each time.
    let part = (RandomState::new().hash_one(failures) >> 32) as u32;
    longest / 2 + longest.mul_f64(f64::from(part) / f64::from(u32::MAX) / 2.0)
}

const FIRST_DELAY: Duration = Duration::from_millis(100);
const LONGEST_DELAY: Duration = Duration::from_secs(10);

/// A store has got the ticket later than it was made.
const MARGIN: Duration = Duration::from_secs(60);

/// If the store has panicked, or the runtime ends.
impl Drop for Saving {
    fn drop(&mut self) {
        if !self.ended {
            self.upkeep.forget(&mut self.upkeep.lock());
            self.upkeep.progress.send_modify(|progress| progress.failing = true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_to_a_bound_and_are_never_nothing() {
        for failures in [0, 1, 5, 16, 17, u32::MAX] {
            let longest = FIRST_DELAY.saturating_mul(1 << failures.min(16)).min(LONGEST_DELAY);
            let delay = delay(failures);
            assert!(
                delay >= longest / 2 && delay <= longest + Duration::from_nanos(2),
                "{failures}: {delay:?}"
            );
        }
    }
}
