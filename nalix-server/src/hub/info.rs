//! Connections as operators see them.

use std::{net::SocketAddr, sync::Arc, time::Instant};

use nalix_core::{CloseReason, Connection, ConnectionId, Detached, PublicKey};

/// How a connection is, at the moment that it was asked for.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ConnectionInfo {
    /// Its number.
    pub id: ConnectionId,
    /// The client's address, where the link has addresses; behind a trusted proxy, the one that the proxy says.
    pub address: Option<SocketAddr>,
    /// Who the client is, as a handler has said: [`Hub::identify`](crate::Hub::identify).
    pub identity: Option<Arc<str>>,
    /// The key that the client has proved to have.
    pub peer_key: Option<PublicKey>,
    /// When its handshake was done.
    pub since: Instant,
    /// How many requests of the server's the client has not answered yet.
    pub calls_in_flight: usize,
    /// How many bytes wait to be written to the client.
    pub unwritten_bytes: usize,
    /// How many one-way packets were left out, since the client reads too slowly for them.
    pub left_out: u64,
    /// Since when it has no link, and why, if its session waits for another.
    pub detached: Option<Detached>,
    /// In how many groups it is.
    pub groups: usize,
    /// Why it has ended, if it has: its hooks may still run.
    pub ended: Option<CloseReason>,
}

impl ConnectionInfo {
    pub(super) fn of(connection: &Connection, groups: usize) -> Self {
        Self {
            id: connection.id(),
            address: connection.peer_addr(),
            identity: identity_of(connection),
            peer_key: connection.peer_key().copied(),
            since: connection.established_at(),
            calls_in_flight: connection.calls_in_flight(),
            unwritten_bytes: connection.unwritten_bytes(),
            left_out: connection.left_out(),
            detached: connection.detached(),
            groups,
            ended: connection.close_reason(),
        }
    }
}

/// Where a session that can be resumed keeps it.
const IDENTITY: &str = "nalix.identity";

/// Who a client is, kept with its connection.
struct Identified(Arc<str>);

pub(super) fn identify(connection: &Connection, name: Arc<str>) -> Option<Arc<str>> {
    if let Some(session) = connection.resumption() {
        // Without room for it, the client has no name when it comes back.
        drop(session.insert(IDENTITY, &name.to_string()));
    }
    set(connection, name)
}

/// Who the client was when its session was last resumed, if it was.
pub(super) fn remember(connection: &Connection) {
    let session = connection.resumption().filter(|session| session.is_resumed());
    if let Some(Ok(Some(name))) = session.map(|session| session.get::<String>(IDENTITY)) {
        set(connection, name.into());
    }
}

fn set(connection: &Connection, name: Arc<str>) -> Option<Arc<str>> {
    connection.set(Identified(name)).map(|old| Arc::clone(&old.0))
}

pub(super) fn identity_of(connection: &Connection) -> Option<Arc<str>> {
    connection.get::<Identified>().map(|identified| Arc::clone(&identified.0))
}
