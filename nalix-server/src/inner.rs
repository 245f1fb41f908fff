//! What every task of a server shares.

use std::{
    fmt,
    net::SocketAddr,
    sync::{Arc, OnceLock},
    time::Duration,
};

use nalix_core::{
    connection::Options,
    controller::Router,
    handshake::{Contracts, ServerSecurity},
    session::MemoryBudget,
};
use tokio::sync::watch;

use crate::{Guard, Hub, handshakes::Handshakes, layered::MakeServing, links::Links, sessions::Sessions};

/// What every task of a server shares.
pub(crate) struct Inner {
    pub(crate) router: Router,
    pub(crate) make_serving: MakeServing,
    pub(crate) contracts: Contracts,
    pub(crate) options: Options,
    pub(crate) security: ServerSecurity,
    pub(crate) hub: Hub,
    pub(crate) guard: Guard,
    pub(crate) links: Arc<Links>,
    pub(crate) handshakes: Arc<Handshakes>,
    pub(crate) reassembly: Arc<MemoryBudget>,
    pub(crate) unread: Arc<MemoryBudget>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) stage: watch::Sender<Stage>,
    pub(crate) drain_timeout: Duration,
    pub(crate) local_addrs: OnceLock<Vec<SocketAddr>>,
}

/// How far a server is on its way to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    Running,
    /// Nobody new is let in; those inside finish.
    Draining,
    /// What still runs is cut off, and everybody is told.
    Stopping,
    /// Everything is dropped.
    Forced,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner")
            .field("hub", &self.hub)
            .field("stage", &*self.stage.borrow())
            .finish_non_exhaustive()
    }
}

impl Inner {
    /// Waits until the server has come at least this far.
    pub(crate) async fn reached(&self, stage: Stage) {
        let mut watch = self.stage.subscribe();
        // The sender lives as long as `self`.
        drop(watch.wait_for(|&now| now >= stage).await);
    }

    pub(crate) fn advance(&self, stage: Stage) {
        self.stage.send_if_modified(|now| {
            let moved = *now < stage;
            *now = (*now).max(stage);
            moved
        });
    }
}
