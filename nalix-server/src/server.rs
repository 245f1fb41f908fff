//! A server that is bound, and the handle to it.

use std::{
    fmt,
    future::Future,
    net::{SocketAddr, TcpListener},
    num::NonZeroUsize,
    sync::Arc,
    time::Duration,
};

use nalix_core::{
    Advice, CloseCode, CloseReason, Connection, ConnectionId, connection::Options, controller::Router,
    handshake::Contracts, link::Link,
};
use tokio::{sync::watch, task::JoinHandle, time::timeout};

use crate::{BuildError, ServerBuilder, accept, cores, hub::Hub, layered::MakeServing};

/// A server that is bound and not running yet. Clients may connect already; they are served once it runs.
#[derive(Debug)]
#[must_use = "a server serves nobody until it runs"]
pub struct Server {
    inner: Arc<Inner>,
    /// For each address, one socket a core.
    listeners: Vec<Vec<TcpListener>>,
    cores: Option<NonZeroUsize>,
}

/// What every task of a server shares.
pub(crate) struct Inner {
    pub(crate) router: Router,
    pub(crate) make_serving: MakeServing,
    pub(crate) contracts: Contracts,
    pub(crate) options: Options,
    pub(crate) hub: Arc<Hub>,
    pub(crate) stage: watch::Sender<Stage>,
    drain_timeout: Duration,
    local_addrs: std::sync::OnceLock<Vec<SocketAddr>>,
}

/// How far a server is on its way to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    Running,
    /// Nobody new is let in; those inside finish.
    Draining,
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
    pub(crate) fn new(
        router: Router,
        make_serving: MakeServing,
        contracts: Contracts,
        options: Options,
        hub: Arc<Hub>,
        drain_timeout: Duration,
    ) -> Self {
        Self {
            router,
            make_serving,
            contracts,
            options,
            hub,
            stage: watch::Sender::new(Stage::Running),
            drain_timeout,
            local_addrs: std::sync::OnceLock::new(),
        }
    }

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

    /// How long connections are given to finish.
    pub(crate) fn drain_timeout(&self) -> Duration {
        self.drain_timeout
    }
}

/// How a server has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct DrainReport {
    /// Connections that had finished when the time was up.
    pub drained: usize,
    /// Connections that were cut off.
    pub forced: usize,
}

impl Server {
    /// Starts to put a server together.
    pub fn builder() -> ServerBuilder {
        ServerBuilder::new()
    }

    pub(crate) fn new(inner: Inner, listeners: Vec<Vec<TcpListener>>, cores: Option<NonZeroUsize>) -> Self {
        let addrs = listeners.iter().filter_map(|sockets| sockets.first()?.local_addr().ok()).collect();
        // Set once, here.
        drop(inner.local_addrs.set(addrs));
        Self { inner: Arc::new(inner), listeners, cores }
    }

    /// The first address it listens on, with the port it got.
    ///
    /// # Panics
    /// If the server was built with [`ServerBuilder::no_listener`].
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addrs().first().copied().expect("a server without a listener has no address")
    }

    /// Every address it listens on.
    pub fn local_addrs(&self) -> Vec<SocketAddr> {
        self.handle().local_addrs()
    }

    /// A handle, to stop the server and to see its connections.
    pub fn handle(&self) -> ServerHandle {
        ServerHandle { inner: Arc::clone(&self.inner) }
    }

    /// Serves until [`ServerHandle::shutdown`] is called, then drains.
    ///
    /// Not cancel safe: see [`Server::run_until`].
    ///
    /// # Errors
    /// [`BuildError::Runtime`] or [`BuildError::Listen`] if the sockets cannot be put to work.
    pub async fn run(self) -> Result<DrainReport, BuildError> {
        self.run_until(std::future::pending()).await
    }

    /// Serves until `signal` resolves or [`ServerHandle::shutdown`] is called, then drains: stops accepting, tells every
    /// client, lets running calls finish, and cuts off what is left when the drain time is up.
    ///
    /// Returns within the drain time and two seconds, unless a handler that is not async blocks the runtime.
    ///
    /// Not cancel safe: dropping the future stops accepting, and leaves the connections that are open to themselves.
    ///
    /// # Errors
    /// As [`Server::run`].
    pub async fn run_until(self, signal: impl Future<Output = ()>) -> Result<DrainReport, BuildError> {
        let Self { inner, listeners, cores } = self;
        let _stop = StopAccepting(&inner);
        let accepting = match cores {
            None => Accepting::Tasks(accept::spawn_all(&inner, listeners)?),
            Some(n) => Accepting::Threads(cores::start(&inner, listeners, n)?),
        };
        tokio::select! {
            () = signal => {}
            () = inner.reached(Stage::Draining) => {}
        }
        let report = drain(&inner).await;
        if timeout(FORCE_TIMEOUT, accepting.join()).await.is_err() {
            tracing::error!("a handler blocks a thread of the server, which is left behind");
        }
        tracing::info!(drained = report.drained, forced = report.forced, "server stopped");
        Ok(report)
    }

    /// Runs the server as a task of the ambient runtime.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn spawn(self) -> (ServerHandle, JoinHandle<Result<DrainReport, BuildError>>) {
        let handle = self.handle();
        (handle, tokio::spawn(self.run()))
    }
}

/// Whoever drops a server that runs has no use for new clients.
struct StopAccepting<'a>(&'a Inner);

impl Drop for StopAccepting<'_> {
    fn drop(&mut self) {
        self.0.advance(Stage::Draining);
    }
}

/// What accepts connections.
enum Accepting {
    Tasks(Vec<JoinHandle<()>>),
    Threads(cores::Threads),
}

impl Accepting {
    async fn join(self) {
        match self {
            Accepting::Tasks(tasks) => {
                for task in tasks {
                    // They end by themselves once the server drains, and do not panic.
                    drop(task.await);
                }
            }
            Accepting::Threads(threads) => threads.join().await,
        }
    }
}

async fn drain(inner: &Inner) -> DrainReport {
    let before = inner.hub.alive();
    tracing::info!(connections = before, "server draining");
    inner.advance(Stage::Draining);
    for connection in inner.hub.connections() {
        connection.drain(inner.drain_timeout);
    }
    let in_time = timeout(inner.drain_timeout, inner.hub.empty()).await.is_ok();
    let forced = if in_time { 0 } else { inner.hub.alive() };
    if !in_time {
        for connection in inner.hub.connections() {
            let reason = CloseReason::new(CloseCode::GoingAway, "the server has stopped");
            connection.close_with(reason.with_advice(Advice::Reconnect));
        }
        drop(timeout(GOODBYE_TIMEOUT, inner.hub.empty()).await);
    }
    inner.advance(Stage::Forced);
    for connection in inner.hub.connections() {
        connection.abort();
    }
    // Every connection's task drops what it has when it sees this; only a runtime that is blocked can keep it from that.
    drop(timeout(FORCE_TIMEOUT, inner.hub.empty()).await);
    DrainReport { drained: before.saturating_sub(forced), forced }
}

/// A handle to a server. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ServerHandle {
    inner: Arc<Inner>,
}

impl ServerHandle {
    /// Tells the server to drain and stop. Returns at once; a second call changes nothing.
    pub fn shutdown(&self) {
        self.inner.advance(Stage::Draining);
    }

    /// Every address the server listens on.
    pub fn local_addrs(&self) -> Vec<SocketAddr> {
        self.inner.local_addrs.get().cloned().unwrap_or_default()
    }

    /// How many connections are open; those in the handshake are not counted.
    pub fn connection_count(&self) -> usize {
        self.inner.hub.count()
    }

    /// How many links were turned away since there were too many.
    pub fn refused_count(&self) -> usize {
        self.inner.hub.refused()
    }

    /// The open connections as of now, in no order.
    pub fn connections(&self) -> Vec<Connection> {
        self.inner.hub.connections()
    }

    /// The open connection with this id.
    pub fn connection(&self, id: ConnectionId) -> Option<Connection> {
        self.inner.hub.get(id)
    }

    /// Serves a link that was made by hand, such as one end of [`link::memory::pair`](nalix_core::link::memory::pair),
    /// on a task of the ambient runtime.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn serve_link(&self, link: impl Link + Unpin) {
        drop(tokio::spawn(accept::serve(Arc::clone(&self.inner), link)));
    }
}

/// How long telling those that are cut off may take.
const GOODBYE_TIMEOUT: Duration = Duration::from_millis(250);
/// How long dropping everything may take.
pub(crate) const FORCE_TIMEOUT: Duration = Duration::from_secs(1);
