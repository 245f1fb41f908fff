//! The accepting side's view of a session that can be resumed.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::{runtime::Handle, sync::watch};

use crate::{
    error::{DecodeError, EncodeError},
    handshake::{SessionData, SessionId, SessionRecord, SessionStore, TicketId},
    packet::Wire,
};

/// A session that its client can resume on another connection, and what the server keeps with it.
///
/// Cheap to clone; all clones are the same session. What is put into it is written to the session store by a task of its
/// own, so it is there when the client comes back, whichever server of those that share the store it comes to.
#[derive(Clone)]
pub struct Resumption {
    inner: Arc<Inner>,
}

struct Inner {
    store: Arc<dyn SessionStore>,
    ticket: TicketId,
    session: SessionId,
    resumed: bool,
    state: Mutex<State>,
    /// How many changes the store has.
    saved: watch::Sender<u64>,
    runtime: Handle,
}

struct State {
    record: SessionRecord,
    changes: u64,
    saving: bool,
}

impl fmt::Debug for Resumption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resumption")
            .field("session", &self.inner.session)
            .field("resumed", &self.inner.resumed)
            .finish_non_exhaustive()
    }
}

impl Resumption {
    pub(crate) fn new(
        store: Arc<dyn SessionStore>,
        ticket: TicketId,
        record: SessionRecord,
        resumed: bool,
    ) -> Self {
        let session = record.session;
        let state = Mutex::new(State { record, changes: 0, saving: false });
        let saved = watch::Sender::new(0);
        Self {
            inner: Arc::new(Inner {
                store,
                ticket,
                session,
                resumed,
                state,
                saved,
                runtime: Handle::current(),
            }),
        }
    }

    /// The session's name, the same on all its connections. For revoking it, and for logs; it is not a secret.
    pub fn session_id(&self) -> SessionId {
        self.inner.session
    }

    /// Whether this connection goes on with a session of an earlier one.
    pub fn is_resumed(&self) -> bool {
        self.inner.resumed
    }

    /// Keeps a value with the session under a name; those that begin with `nalix.` are the framework's. It is written to the store in the background;
    /// [`Resumption::saved`] waits for that.
    ///
    /// # Errors
    /// [`EncodeError`] if the value cannot be encoded or the session would become too large; nothing has changed then.
    pub fn insert<T: Wire>(&self, name: &str, value: &T) -> Result<(), EncodeError> {
        self.change(|data| data.insert(name, value).map(|_| true)).map(drop)
    }

    /// The value kept under this name.
    ///
    /// # Errors
    /// [`DecodeError`] if the value is of another type.
    pub fn get<T: Wire>(&self, name: &str) -> Result<Option<T>, DecodeError> {
        self.inner.lock().record.data.get(name)
    }

    /// Forgets the value kept under this name, and returns whether there was one.
    pub fn remove(&self, name: &str) -> bool {
        self.change(|data| Ok::<_, std::convert::Infallible>(data.remove(name))).unwrap_or_default()
    }

    /// Remembers what the client may do. If there is no room for that, it may do nothing when it comes back.
    pub(crate) fn keep_permission(&self, permission: u8) {
        drop(self.insert(PERMISSION, &permission));
    }

    /// What the client was allowed to do.
    pub(crate) fn permission(&self) -> Option<u8> {
        self.get(PERMISSION).ok().flatten()
    }

    /// Waits until the store has what has been put in by now, or has refused it. Cancel safe.
    pub async fn saved(&self) {
        let wanted = self.inner.lock().changes;
        let mut saved = self.inner.saved.subscribe();
        // The sender lives as long as `self`.
        drop(saved.wait_for(|&saved| saved >= wanted).await);
    }

    fn change<E>(&self, f: impl FnOnce(&mut SessionData) -> Result<bool, E>) -> Result<bool, E> {
        let mut state = self.inner.lock();
        let changed = f(&mut state.record.data)?;
        if changed {
            state.changes += 1;
            if !std::mem::replace(&mut state.saving, true) {
                self.inner.runtime.spawn(save(Arc::clone(&self.inner)));
            }
        }
        Ok(changed)
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where the client's permission is kept. Names that begin like this are the framework's.
const PERMISSION: &str = "nalix.permission";

/// Writes to the store until it has everything.
async fn save(inner: Arc<Inner>) {
    loop {
        let (record, changes) = {
            let state = inner.lock();
            (state.record.clone(), state.changes)
        };
        match inner.store.update(inner.ticket, record).await {
            // The session has gone on elsewhere, or has been revoked or forgotten.
            Ok(false) => tracing::debug!(session = %inner.session, "a session is not kept any more"),
            Ok(true) => {}
            Err(error) => tracing::warn!(%error, session = %inner.session, "a session was not saved"),
        }
        inner.saved.send_replace(changes);
        let mut state = inner.lock();
        if state.changes == changes {
            state.saving = false;
            return;
        }
    }
}
