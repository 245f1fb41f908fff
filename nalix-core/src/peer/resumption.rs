//! The accepting side's view of a session that can be resumed.

use std::{fmt, sync::Arc};

use crate::{
    error::{DecodeError, EncodeError},
    handshake::{SessionData, SessionId, Upkeep},
    packet::Wire,
};

/// A session that its client can resume on another connection, and what the server keeps with it.
///
/// Cheap to clone; all clones are the same session. What is put into it is written to the session store by a task of its
/// own, so it is there when the client comes back, whichever server of those that share the store it comes to.
///
/// A store that fails is tried again, with delays up to ten seconds, until it has everything or the ticket has expired, also
/// after the connection has ended. Until then this server refuses the ticket with the advice to try again. What a process has
/// not written when it ends is lost, and other servers that share the store see the session as it was.
#[derive(Clone)]
pub struct Resumption {
    upkeep: Arc<Upkeep>,
    resumed: bool,
}

impl fmt::Debug for Resumption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resumption")
            .field("session", &self.upkeep.session())
            .field("resumed", &self.resumed)
            .finish_non_exhaustive()
    }
}

impl Resumption {
    pub(crate) fn new(upkeep: Arc<Upkeep>, resumed: bool) -> Self {
        Self { upkeep, resumed }
    }

    /// The session's name, the same on all its connections. For revoking it, and for logs; it is not a secret.
    pub fn session_id(&self) -> SessionId {
        self.upkeep.session()
    }

    /// Whether this connection goes on with a session of an earlier one.
    pub fn is_resumed(&self) -> bool {
        self.resumed
    }

    /// Keeps a value with the session under a name; those that begin with `nalix.` are the framework's. It is written to the store in the background;
    /// [`Resumption::saved`] waits for that.
    ///
    /// # Errors
    /// [`EncodeError`] if the value cannot be encoded or the session would become too large; nothing has changed then.
    pub fn insert<T: Wire>(&self, name: &str, value: &T) -> Result<(), EncodeError> {
        self.upkeep.change(|data| data.insert(name, value).map(|()| true)).map(drop)
    }

    /// The value kept under this name.
    ///
    /// # Errors
    /// [`DecodeError`] if the value is of another type.
    pub fn get<T: Wire>(&self, name: &str) -> Result<Option<T>, DecodeError> {
        self.upkeep.read(|data| data.get(name))
    }

    /// Forgets the value kept under this name, and returns whether there was one.
    pub fn remove(&self, name: &str) -> bool {
        self.upkeep.change(|data| Ok::<_, std::convert::Infallible>(data.remove(name))).unwrap_or_default()
    }

    /// Remembers what the client may do. If there is no room for that, it may do nothing when it comes back.
    pub(crate) fn keep_permission(&self, permission: u8) {
        drop(self.insert(PERMISSION, &permission));
    }

    /// What the client was allowed to do.
    pub(crate) fn permission(&self) -> Option<u8> {
        self.get(PERMISSION).ok().flatten()
    }

    /// Waits until the store has what has been put in by now, or has failed to take it, and says whether it has it. If not, the
    /// session cannot be resumed any more, or it will be written later. Cancel safe.
    pub async fn saved(&self) -> bool {
        self.upkeep.saved().await
    }

    /// Takes over what was kept with the session under an earlier ticket.
    pub(crate) fn replace(&self, earlier: &Upkeep) {
        let kept = earlier.read(SessionData::clone);
        let replaced = self.upkeep.change(|data| {
            *data = kept;
            Ok::<_, std::convert::Infallible>(true)
        });
        debug_assert!(replaced.is_ok());
    }
}

/// Where the client's permission is kept. Names that begin like this are the framework's.
const PERMISSION: &str = "nalix.permission";
