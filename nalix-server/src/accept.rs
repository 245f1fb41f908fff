//! From a listening socket to connections.

use std::{
    io,
    net::TcpListener as StdListener,
    sync::Arc,
    time::{Duration, Instant},
};

use nalix_core::{
    Advice, CloseCode, CloseReason,
    connection::{self, ConnectError, Driver},
    controller::Context,
    link::{Link, tcp},
    wire::Limits,
};
use tokio::{net::TcpListener, task::JoinHandle, time::sleep};
use tracing::Instrument;

use crate::{
    BuildError,
    server::{Inner, Stage},
};

/// Starts to accept on every socket, on the ambient runtime.
pub(crate) fn spawn_all(
    inner: &Arc<Inner>,
    listeners: Vec<Vec<StdListener>>,
) -> Result<Vec<JoinHandle<()>>, BuildError> {
    let mut tasks = Vec::new();
    for listener in listeners.into_iter().flatten() {
        let address = listener.local_addr().map(|addr| addr.to_string()).unwrap_or_default();
        let listener =
            TcpListener::from_std(listener).map_err(|source| BuildError::Listen { address, source })?;
        tasks.push(tokio::spawn(accept(Arc::clone(inner), listener)));
    }
    Ok(tasks)
}

/// Accepts until the server drains.
pub(crate) async fn accept(inner: Arc<Inner>, listener: TcpListener) {
    let mut complaints = Complaints::default();
    let mut draining = std::pin::pin!(inner.reached(Stage::Draining));
    loop {
        let accepted = tokio::select! {
            () = &mut draining => return,
            accepted = listener.accept() => accepted,
        };
        match accepted.and_then(|(stream, _)| tcp::link(stream)) {
            // The handshake happens in the connection's own task: a silent peer holds nobody up.
            Ok(link) => drop(tokio::spawn(serve(Arc::clone(&inner), link))),
            Err(error) if is_exhaustion(&error) => {
                complaints.report(&error);
                // The connection stays in the kernel's queue, and accepting again at once would find it there again.
                sleep(EXHAUSTION_PAUSE).await;
            }
            Err(error) => tracing::debug!(%error, "a connection was gone before it was accepted"),
        }
    }
}

/// Serves one link, from its handshake to its end.
pub(crate) async fn serve(inner: Arc<Inner>, link: impl Link + Unpin) {
    let span = tracing::info_span!(
        "connection",
        peer = link.peer_addr().map(tracing::field::display),
        id = tracing::field::Empty
    );
    let Some(mut present) = inner.hub.enter() else {
        let reason = CloseReason::new(CloseCode::LimitExceeded, "too many connections")
            .with_advice(Advice::Retry { after: Some(Duration::from_secs(1)) });
        connection::refuse(link, reason, &inner.options).instrument(span).await;
        return;
    };
    let work = async {
        let established = tokio::select! {
            established = connection::accept(link, inner.contracts.clone(), &inner.options) => established,
            // Nothing has been promised to a peer whose handshake is not done.
            () = inner.reached(Stage::Draining) => return,
        };
        let established = match established {
            Ok(established) => established,
            Err(error) => return log_failure(&error),
        };
        let (connection, driver) = Driver::new(established, (inner.make_serving)(), &inner.options);
        tracing::Span::current().record("id", connection.id().get());
        tracing::debug!("connected");
        present.open(connection.clone());
        // Whoever comes in while the server begins to drain has missed the call.
        if *inner.stage.borrow() >= Stage::Draining {
            connection.drain(inner.drain_timeout());
        }
        let reason = tokio::select! {
            reason = driver => reason,
            () = inner.reached(Stage::Forced) => CloseReason::new(CloseCode::GoingAway, "cut off"),
        };
        if reason.is_normal() || reason.code == CloseCode::Lost {
            tracing::debug!(%reason, "disconnected");
        } else {
            tracing::info!(%reason, "disconnected");
        }
        let context = Context::new(connection, Arc::clone(inner.router.states()), Limits::DEFAULT);
        connection::run_disconnected(&inner.router, &context, &reason).await;
    };
    work.instrument(span).await;
    drop(present);
}

/// A peer that fails its handshake is nobody's fault here, and there may be many.
fn log_failure(error: &ConnectError) {
    tracing::debug!(%error, "handshake failed");
}

/// Whether the process or the machine is out of descriptors or memory, which passes.
fn is_exhaustion(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::OutOfMemory)
        || matches!(error.raw_os_error(), Some(EMFILE | ENFILE | ENOBUFS | ENOMEM))
}

/// One line a second at the most.
#[derive(Default)]
struct Complaints {
    last: Option<Instant>,
}

impl Complaints {
    fn report(&mut self, error: &io::Error) {
        if self.last.is_none_or(|last| last.elapsed() >= Duration::from_secs(1)) {
            self.last = Some(Instant::now());
            tracing::error!(%error, "cannot accept connections for now");
        }
    }
}

const EXHAUSTION_PAUSE: Duration = Duration::from_millis(100);

// The numbers are the same on Linux, macOS and the BSDs, but for ENOBUFS.
const EMFILE: i32 = 24;
const ENFILE: i32 = 23;
const ENOMEM: i32 = 12;
const ENOBUFS: i32 = if cfg!(target_os = "linux") { 105 } else { 55 };
