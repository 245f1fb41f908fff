//! Clients that note what is sent to them, with the server's ends of their connections.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
};

use nalix_client::{Client, Session};
use nalix_core::{Connection, controller::Controller, link::memory};
use nalix_server::ServerHandle;

use super::{RawPeer, eventually};

/// What has been received, in order.
#[derive(Debug, Clone)]
pub(crate) struct Inbox<T>(Arc<Mutex<Vec<T>>>);

impl<T> Default for Inbox<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T: Clone> Inbox<T> {
    pub(crate) fn put(&self, value: T) {
        self.0.lock().unwrap().push(value);
    }

    pub(crate) fn all(&self) -> Vec<T> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    pub(crate) async fn has(&self, n: usize) {
        eventually("everything arrives", || self.len() >= n).await;
    }
}

/// A client that serves `controller`, and the server's end of its connection.
pub(crate) async fn member(server: &ServerHandle, controller: impl Controller) -> (Session, Connection) {
    let before = ids(server);
    let (ours, theirs) = memory::pair(64 * 1024);
    server.serve_link(theirs);
    let client = Client::builder("").plaintext().controller(controller);
    let session = client.connect_over(ours).await.expect("the handshake succeeds");
    (session, newest(server, &before).await)
}

/// A client that reads nothing unless it is told to, over a link that takes so many bytes.
pub(crate) async fn deaf(server: &ServerHandle, capacity: usize) -> (RawPeer, Connection) {
    let before = ids(server);
    let peer = RawPeer::connect_over(server, capacity).await;
    (peer, newest(server, &before).await)
}

fn ids(server: &ServerHandle) -> HashSet<u64> {
    server.connections().iter().map(|connection| connection.id().get()).collect()
}

async fn newest(server: &ServerHandle, before: &HashSet<u64>) -> Connection {
    let fresh =
        || server.connections().into_iter().find(|connection| !before.contains(&connection.id().get()));
    eventually("the server has the connection", || fresh().is_some()).await;
    fresh().unwrap()
}
