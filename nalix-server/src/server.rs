//! A server that is bound.

use std::{
    future::Future,
    net::{SocketAddr, TcpListener},
    num::NonZeroUsize,
    pin::pin,
    sync::Arc,
};

use tokio::{task::JoinHandle, time::timeout};

use crate::{
    BuildError, DrainReport, ServerHandle, accept, cores, descriptors,
    drain::{FORCE_TIMEOUT, drain},
    inner::{Inner, Stage},
};

/// A server that is bound and not running yet. Clients may connect already; they are served once it runs.
#[derive(Debug)]
#[must_use = "a server serves nobody until it runs"]
pub struct Server {
    inner: Arc<Inner>,
    /// For each address, one socket a core.
    listeners: Vec<Vec<TcpListener>>,
    cores: Option<NonZeroUsize>,
}

impl Server {
    pub(crate) fn new(inner: Inner, listeners: Vec<Vec<TcpListener>>, cores: Option<NonZeroUsize>) -> Self {
        let addrs = listeners.iter().filter_map(|sockets| sockets.first()?.local_addr().ok()).collect();
        // Set once, here.
        drop(inner.local_addrs.set(addrs));
        Self { inner: Arc::new(inner), listeners, cores }
    }

    /// The first address it listens on, with the port it got.
    ///
    /// # Panics
    /// If the server was built with [`ServerBuilder::no_listener`](crate::ServerBuilder::no_listener).
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
        self.run_until_forced(signal, std::future::pending()).await
    }

    /// As [`Server::run_until`], and once the drain has begun, `force` ends it at once, as [`ServerHandle::stop_now`] does. It
    /// is not polled before, so both may wait for the same signal, to be sent twice:
    ///
    /// ```no_run
    /// # async fn f(server: nalix_server::Server) -> Result<(), nalix_server::BuildError> {
    /// let signal = || async { drop(tokio::signal::ctrl_c().await) };
    /// server.run_until_forced(signal(), signal()).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// Not cancel safe: as [`Server::run_until`].
    ///
    /// # Errors
    /// As [`Server::run`].
    pub async fn run_until_forced(
        self,
        signal: impl Future<Output = ()>,
        force: impl Future<Output = ()>,
    ) -> Result<DrainReport, BuildError> {
        let Self { inner, listeners, cores } = self;
        descriptors::warn_if_short(inner.links.max());
        let _stop = StopAccepting(&inner);
        let accepting = match cores {
            None => Accepting::Tasks(accept::spawn_all(&inner, listeners)?),
            Some(n) => Accepting::Threads(cores::start(&inner, listeners, n)?),
        };
        tokio::select! {
            () = signal => {}
            () = inner.reached(Stage::Draining) => {}
        }
        let mut draining = pin!(drain(&inner));
        let report = tokio::select! {
            report = &mut draining => report,
            () = force => {
                inner.advance(Stage::Stopping);
                draining.await
            }
        };
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
