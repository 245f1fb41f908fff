//! Sessions that outlive their links, and how a link finds its own.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::Arc,
    time::Duration,
};

use nalix_core::{
    Advice, CloseCode, CloseReason, Connection, ConnectionId,
    connection::{Anchor, Established, Refused, Why},
    handshake::SessionId,
    link::BoxLink,
};

use crate::sync::Mutex;

/// The sessions of a server that can go on over another link.
pub(crate) struct Sessions {
    state: Mutex<State>,
    max_detached: usize,
}

#[derive(Default)]
struct State {
    anchors: HashMap<SessionId, Anchor<BoxLink>>,
    away: Away,
}

/// Those that have no link, by how long they have been without.
#[derive(Default)]
struct Away {
    count: u64,
    numbers: HashMap<ConnectionId, u64>,
    connections: BTreeMap<u64, Connection>,
}

impl Away {
    fn insert(&mut self, connection: Connection) {
        self.count += 1;
        self.numbers.insert(connection.id(), self.count);
        self.connections.insert(self.count, connection);
    }

    fn remove(&mut self, id: ConnectionId) {
        if let Some(number) = self.numbers.remove(&id) {
            self.connections.remove(&number);
        }
    }

    fn pop_oldest(&mut self) -> Option<Connection> {
        let (_, connection) = self.connections.pop_first()?;
        self.numbers.remove(&connection.id());
        Some(connection)
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").field("count", &self.state.lock().anchors.len()).finish_non_exhaustive()
    }
}

/// What has become of a link.
pub(crate) enum Found {
    /// A session goes on over it.
    GoesOn,
    /// It is for a new session.
    New(Established<BoxLink>),
}

impl Sessions {
    pub(crate) fn new(max_detached: usize) -> Self {
        Self { state: Mutex::default(), max_detached }
    }

    /// Hands a link to the session that its client asks to go on with, if it is here and the client has its token. A session that
    /// cannot go on ends, since its client starts anew.
    pub(crate) async fn go_on(&self, established: Established<BoxLink>) -> Found {
        let Some(attach) = established.attach() else { return Found::New(established) };
        let anchor = self.state.lock().anchors.get(&attach.session).cloned();
        let admits = |anchor: &Anchor<BoxLink>| anchor.admits(&attach.token, established.peer_key().as_ref());
        let Some(anchor) = anchor.filter(admits) else {
            tracing::debug!(session = %attach.session, "no such session to go on with");
            return Found::New(established);
        };
        match anchor.attach(established).await {
            Ok(()) => Found::GoesOn,
            // The client has come over a newer link meanwhile, and has given this one up.
            Err(Refused { why: Why::Stale, .. }) => Found::GoesOn,
            Err(Refused { established, why }) => {
                tracing::debug!(?why, "a session cannot go on");
                let reason =
                    CloseReason::new(CloseCode::Lost, "the session could not go on over another link");
                anchor.connection().close_with(reason);
                Found::New(*established)
            }
        }
    }

    /// A session is open.
    pub(crate) fn insert(self: &Arc<Self>, anchor: Anchor<BoxLink>) -> Option<Kept> {
        let session = anchor.session()?;
        let id = anchor.connection().id();
        self.state.lock().anchors.insert(session, anchor);
        Some(Kept { sessions: Arc::clone(self), session, id })
    }

    /// Makes a session impossible to go on with. Whoever has no link ends.
    pub(crate) fn revoke(&self, session: SessionId) {
        let anchor = self.state.lock().anchors.remove(&session);
        if let Some(anchor) = anchor
            && anchor.connection().detached().is_some()
        {
            anchor.connection().close_with(CloseReason::new(CloseCode::Normal, "the session was revoked"));
        }
    }

    /// A session has lost its link, or has another. If too many have none, the one ends that has been without for longest.
    pub(crate) fn link_changed(&self, connection: &Connection, there: bool) {
        let mut state = self.state.lock();
        if there {
            return state.away.remove(connection.id());
        }
        state.away.insert(connection.clone());
        let too_many = state.away.connections.len() > self.max_detached;
        let oldest = if too_many { state.away.pop_oldest() } else { None };
        drop(state);
        if let Some(oldest) = oldest {
            let reason = CloseReason::new(CloseCode::LimitExceeded, "too many sessions are without a link");
            oldest.close_with(reason.with_advice(Advice::Retry { after: Some(Duration::from_secs(1)) }));
        }
    }

    fn remove(&self, session: SessionId, id: ConnectionId) {
        let mut state = self.state.lock();
        // A session that was resumed with a ticket has the same name as the one before.
        if state.anchors.get(&session).is_some_and(|anchor| anchor.connection().id() == id) {
            state.anchors.remove(&session);
        }
        state.away.remove(id);
    }
}

/// A session's place. Dropping it frees the place.
pub(crate) struct Kept {
    sessions: Arc<Sessions>,
    session: SessionId,
    id: ConnectionId,
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.sessions.remove(self.session, self.id);
    }
}
