//! Sessions that outlive their links, and how a link finds its own.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
    sync::Arc,
    time::Duration,
};

use nalix_core::{
    Advice, CloseCode, CloseReason, Connection, ConnectionId,
    connection::{Anchor, Established, Refused, Why},
    handshake::SessionId,
    limit::AddressKey,
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
    /// The number of each, and the address that it had then: it may come back from another.
    numbers: HashMap<ConnectionId, (u64, Option<AddressKey>)>,
    connections: BTreeMap<u64, Connection>,
    /// Which of them come from one address, or one /64 of IPv6.
    addresses: HashMap<AddressKey, BTreeSet<u64>>,
}

impl Away {
    fn insert(&mut self, connection: Connection) {
        self.remove(connection.id());
        self.count += 1;
        let address = address_of(&connection);
        if let Some(address) = address {
            self.addresses.entry(address).or_default().insert(self.count);
        }
        self.numbers.insert(connection.id(), (self.count, address));
        self.connections.insert(self.count, connection);
    }

    fn remove(&mut self, id: ConnectionId) -> Option<Connection> {
        let (number, address) = self.numbers.remove(&id)?;
        let connection = self.connections.remove(&number)?;
        if let Some(address) = address
            && let Some(numbers) = self.addresses.get_mut(&address)
        {
            numbers.remove(&number);
            if numbers.is_empty() {
                self.addresses.remove(&address);
            }
        }
        Some(connection)
    }

    /// Takes out whoever has been without a link for longest, if there are too many: of all, or of the address of `newest`.
    fn evict(&mut self, newest: &Connection, max: usize) -> Option<Connection> {
        let of_address = address_of(newest).and_then(|address| self.addresses.get(&address));
        let crowded = of_address.filter(|numbers| numbers.len() > (max / SHARE).max(1));
        let oldest = match crowded.and_then(BTreeSet::first) {
            Some(number) => *number,
            None if self.connections.len() > max => *self.connections.keys().next()?,
            None => return None,
        };
        let id = self.connections.get(&oldest)?.id();
        self.remove(id)
    }
}

fn address_of(connection: &Connection) -> Option<AddressKey> {
    connection.peer_addr().map(|address| AddressKey::of(address.ip()))
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").field("count", &self.state.lock().anchors.len()).finish_non_exhaustive()
    }
}

impl Sessions {
    pub(crate) fn new(max_detached: usize) -> Self {
        Self { state: Mutex::default(), max_detached }
    }

    /// Hands a link to the session that its client asks to go on with, if it is here and the client has its token. A session that
    /// cannot go on ends, since its client starts anew. Returns the link if it is for a new session.
    pub(crate) async fn go_on(&self, established: Established<BoxLink>) -> Option<Established<BoxLink>> {
        let Some(attach) = established.attach() else { return Some(established) };
        let anchor = self.state.lock().anchors.get(&attach.session).cloned();
        let admits = |anchor: &Anchor<BoxLink>| anchor.admits(&attach.token, established.peer_key().as_ref());
        let Some(anchor) = anchor.filter(admits) else {
            tracing::debug!(session = %attach.session, "no such session to go on with");
            return Some(established);
        };
        match anchor.attach(established).await {
            Ok(()) => None,
            // The client has come over a newer link meanwhile, and has given this one up.
            Err(Refused { why: Why::Stale, .. }) => None,
            Err(Refused { established, why }) => {
                tracing::debug!(?why, "a session cannot go on");
                let reason =
                    CloseReason::new(CloseCode::Lost, "the session could not go on over another link");
                anchor.connection().close_with(reason);
                Some(*established)
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
            drop(state.away.remove(connection.id()));
            return;
        }
        state.away.insert(connection.clone());
        let oldest = state.away.evict(connection, self.max_detached);
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
        drop(state.away.remove(id));
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

/// One address has at most this part of the sessions that may be without a link, so that it cannot have those of others ended.
const SHARE: usize = 8;
