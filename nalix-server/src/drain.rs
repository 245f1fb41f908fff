//! How a server ends.

use std::time::Duration;

use nalix_core::handshake::ServerSecurity;
use tokio::time::timeout;

use crate::{
    accept::stopped,
    inner::{Inner, Stage},
};

/// How a server has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct DrainReport {
    /// Connections that had finished when the time was up.
    pub drained: usize,
    /// Connections that were cut off.
    pub forced: usize,
}

/// Tells every client, lets running calls finish, and cuts off what is left when the time is up.
pub(crate) async fn drain(inner: &Inner) -> DrainReport {
    let before = inner.links.alive();
    tracing::info!(connections = before, "server draining");
    inner.advance(Stage::Draining);
    for connection in inner.hub.connections() {
        // The server ends the drain; a connection that did so first would count as one that had finished.
        connection.drain(inner.drain_timeout.saturating_add(DRAIN_SLACK));
    }
    let in_time = tokio::select! {
        biased;
        done = timeout(inner.drain_timeout, inner.links.empty()) => done.is_ok(),
        () = inner.reached(Stage::Stopping) => inner.links.alive() == 0,
    };
    let forced = if in_time { 0 } else { inner.links.alive() };
    if !in_time {
        inner.advance(Stage::Stopping);
        for connection in inner.hub.connections() {
            connection.close_with(stopped());
        }
        drop(timeout(GOODBYE_TIMEOUT, inner.links.empty()).await);
    }
    inner.advance(Stage::Forced);
    for connection in inner.hub.connections() {
        connection.abort();
    }
    // Every connection's task drops what it has when it sees this; only a runtime that is blocked can keep it from that.
    drop(timeout(FORCE_TIMEOUT, inner.links.empty()).await);
    save(inner).await;
    DrainReport { drained: before.saturating_sub(forced), forced }
}

/// What the store of sessions has not when the process ends is lost, and what was taken away would come back.
async fn save(inner: &Inner) {
    let ServerSecurity::Secured(secured) = &inner.security else { return };
    if timeout(SAVE_TIMEOUT, secured.saved()).await.is_err() {
        tracing::warn!(
            "the store does not have all sessions as they are: they come back as they were before"
        );
    }
}

/// How long the store may take for what it does not have yet.
const SAVE_TIMEOUT: Duration = Duration::from_millis(500);
/// How much longer connections are given than the server waits.
const DRAIN_SLACK: Duration = Duration::from_millis(100);
/// How long telling those that are cut off may take.
const GOODBYE_TIMEOUT: Duration = Duration::from_millis(250);
/// How long dropping everything may take.
pub(crate) const FORCE_TIMEOUT: Duration = Duration::from_secs(1);
