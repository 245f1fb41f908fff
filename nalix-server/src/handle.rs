//! The handle to a server.

use std::{net::SocketAddr, sync::Arc};

use nalix_core::{
    Connection, ConnectionId,
    handshake::{ServerSecurity, SessionId, StoreError},
    link::Link,
};

use crate::{
    Guard, Hub, accept,
    inner::{Inner, Stage},
};

/// A handle to a server. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ServerHandle {
    pub(crate) inner: Arc<Inner>,
}

impl ServerHandle {
    /// Tells the server to drain and stop. Returns at once; a second call changes nothing.
    pub fn shutdown(&self) {
        self.inner.advance(Stage::Draining);
    }

    /// Tells the server to stop at once: no call is waited for, also if it drains already. Every client is still told why its
    /// connection ends, as far as it reads that within a quarter of a second. Returns at once.
    pub fn stop_now(&self) {
        self.inner.advance(Stage::Stopping);
    }

    /// Whether the server drains, or has stopped.
    pub fn is_draining(&self) -> bool {
        *self.inner.stage.borrow() >= Stage::Draining
    }

    /// How many bytes wait to be written, over all connections that are open. Takes time with their number.
    pub fn queued_bytes(&self) -> usize {
        self.connections().iter().map(Connection::queued_bytes).sum()
    }

    /// Every address the server listens on.
    pub fn local_addrs(&self) -> Vec<SocketAddr> {
        self.inner.local_addrs.get().cloned().unwrap_or_default()
    }

    /// The server's connections and groups.
    pub fn hub(&self) -> Hub {
        self.inner.hub.clone()
    }

    /// Whom the server lets in: bans, lists, and how many were turned away.
    pub fn guard(&self) -> Guard {
        self.inner.guard.clone()
    }

    /// How many connections are open; those in the handshake are not counted.
    pub fn connection_count(&self) -> usize {
        self.inner.hub.count()
    }

    /// How many links were turned away since there were too many.
    pub fn refused_count(&self) -> usize {
        self.inner.links.refused()
    }

    /// How many bytes of memory the messages of over 16 KiB take that are not whole yet, or whose handlers have not finished:
    /// at most [`max_reassembly`](crate::ServerBuilder::max_reassembly).
    pub fn reassembly_bytes(&self) -> usize {
        self.inner.reassembly.used()
    }

    /// How many bytes of memory are kept for peers that read nothing, beyond 16 KiB for each: at most
    /// [`max_unread`](crate::ServerBuilder::max_unread).
    pub fn unread_bytes(&self) -> usize {
        self.inner.unread.used()
    }

    /// The open connections as of now, in no order.
    pub fn connections(&self) -> Vec<Connection> {
        self.inner.hub.connections()
    }

    /// The open connection with this id.
    pub fn connection(&self, id: ConnectionId) -> Option<Connection> {
        self.inner.hub.get(id)
    }

    /// Makes a session impossible to resume: after a logout, a ban, a change of what its user may do. Returns how many
    /// tickets were taken back. A session that has lost its link ends; connections that are open stay open, until they lose
    /// theirs: close them, too, if they are to end.
    ///
    /// Cancel safe as far as the store is.
    ///
    /// # Errors
    /// [`StoreError`] if the store failed; the session may still be resumable then.
    pub async fn revoke(&self, session: SessionId) -> Result<usize, StoreError> {
        self.inner.sessions.revoke(session);
        match &self.inner.security {
            ServerSecurity::Secured(secured) => match &secured.store {
                Some(store) => store.revoke(session, secured.longest_lifetime()).await,
                None => Ok(0),
            },
            _ => Ok(0),
        }
    }

    /// Serves a link that was made by hand, such as one end of [`link::memory::pair`](nalix_core::link::memory::pair),
    /// on a task of the ambient runtime. If it has an address, that counts as if it had come to a listener of the server's.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn serve_link(&self, link: impl Link + Unpin) {
        drop(tokio::spawn(accept::serve(Arc::clone(&self.inner), link)));
    }
}
