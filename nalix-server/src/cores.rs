//! One runtime of one thread for each core, all listening on the same port.

use std::{
    net::TcpListener as StdListener,
    num::NonZeroUsize,
    sync::Arc,
    thread::{self, JoinHandle},
};

use tokio::{net::TcpListener, runtime, sync::oneshot, time::timeout};

use crate::{
    BuildError, accept,
    drain::FORCE_TIMEOUT,
    inner::{Inner, Stage},
};

/// The threads of a server.
pub(crate) struct Threads {
    threads: Vec<(oneshot::Receiver<()>, JoinHandle<()>)>,
}

impl Threads {
    /// Waits until all have ended, which they do when the server is over.
    pub(crate) async fn join(self) {
        for (done, thread) in self.threads {
            // The sender is dropped when the thread ends, so that joining it does not block.
            drop(done.await);
            if thread.join().is_err() {
                tracing::error!("a server thread panicked");
            }
        }
    }
}

/// Starts `n` threads; the i-th serves the i-th socket of every address.
pub(crate) fn start(
    inner: &Arc<Inner>,
    mut listeners: Vec<Vec<StdListener>>,
    n: NonZeroUsize,
) -> Result<Threads, BuildError> {
    let mut threads = Vec::new();
    for i in 0..n.get() {
        let sockets: Vec<_> = listeners.iter_mut().filter_map(Vec::pop).collect();
        let runtime =
            runtime::Builder::new_current_thread().enable_all().build().map_err(BuildError::Runtime)?;
        let inner = Arc::clone(inner);
        let (done, ended) = oneshot::channel();
        let thread = thread::Builder::new()
            .name(format!("nalix-{i}"))
            .spawn(move || {
                runtime.block_on(serve(inner, sockets));
                // Does not wait for handlers that block a thread of their own, which nobody can stop.
                runtime.shutdown_background();
                drop(done);
            })
            .map_err(BuildError::Runtime)?;
        threads.push((ended, thread));
    }
    Ok(Threads { threads })
}

async fn serve(inner: Arc<Inner>, sockets: Vec<StdListener>) {
    for socket in sockets {
        match TcpListener::from_std(socket) {
            Ok(listener) => drop(tokio::spawn(accept::accept(Arc::clone(&inner), listener))),
            Err(error) => tracing::error!(%error, "a socket cannot be served"),
        }
    }
    // Connections of this thread end with its runtime, so it stays until all have finished or been cut off.
    inner.reached(Stage::Draining).await;
    tokio::select! {
        () = inner.links.empty() => {}
        () = inner.reached(Stage::Forced) => {}
    }
    // Those that are cut off are still told so, and so are their hooks.
    drop(timeout(FORCE_TIMEOUT, inner.links.empty()).await);
}
