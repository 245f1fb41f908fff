//! From a listening socket to connections.

use std::{
    io,
    net::TcpListener as StdListener,
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use nalix_core::{
    Advice, CloseCode, CloseReason, Side,
    connection::{self, ConnectError, Driver, Serving},
    controller::{Context, Router},
    error::ProtocolError,
    link::{Link, tcp},
};
use tokio::{net::TcpListener, task::JoinHandle, time::sleep};
use tracing::Instrument;

use crate::{
    BuildError, Guard, RefusalCause,
    guard::{Fronted, Origin, Seat, front},
    inner::{Inner, Stage},
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
    let mut draining = pin!(inner.reached(Stage::Draining));
    loop {
        let accepted = tokio::select! {
            () = &mut draining => return,
            accepted = listener.accept() => accepted,
        };
        match accepted.map(|(stream, _)| tcp::link(stream)) {
            // The handshake happens in the connection's own task: a silent peer holds nobody up.
            Ok(Ok(link)) => drop(tokio::spawn(serve(Arc::clone(&inner), link))),
            Ok(Err(error)) => tracing::debug!(%error, "a connection was gone when it was accepted"),
            Err(error) if is_of_one_connection(&error) => {
                tracing::debug!(%error, "a connection was gone before it was accepted");
            }
            Err(error) => {
                complaints.report(&error);
                // Out of descriptors, perhaps: the connection stays in the kernel's queue, and accepting again at once
                // would find it there again.
                tokio::select! {
                    () = &mut draining => return,
                    () = sleep(ERROR_PAUSE) => {}
                }
            }
        }
    }
}

/// Serves one link, from its first byte to its end.
pub(crate) async fn serve(inner: Arc<Inner>, link: impl Link + Unpin) {
    if !inner.guard.has_header(&link) {
        return serve_client(inner, Guard::direct(link)).await;
    }
    // It is nobody's yet, and counts among all handshakes, so that links on which nothing is said are bounded.
    let Ok(waiting) = inner.handshakes.begin(None) else {
        let refusal = inner.guard.refuse(Origin::Proxy, RefusalCause::Handshakes);
        return refuse(&inner, link, refusal.reason()).await;
    };
    let proxy = link.peer_addr();
    let fronted = front(&inner.guard, link, inner.reached(Stage::Draining)).await;
    drop(waiting);
    match fronted {
        Ok(link) => serve_client(inner, link).await,
        Err(error) => {
            inner.guard.refuse(Origin::Proxy, RefusalCause::ProxyHeader);
            tracing::debug!(proxy = proxy.map(tracing::field::display), %error, "a trusted proxy has named no client");
        }
    }
}

/// Serves a link of a client, from its handshake to its end.
async fn serve_client<L: Link + Unpin>(inner: Arc<Inner>, mut link: Fronted<L>) {
    let span = tracing::info_span!(
        "connection",
        peer = link.peer_addr().map(tracing::field::display),
        id = tracing::field::Empty
    );
    let origin = link.origin();
    if *inner.stage.borrow() >= Stage::Draining {
        return refuse(&inner, link, draining()).instrument(span).await;
    }
    // The lists, the address's own limits, and then those of all together: who is turned away takes no room from others.
    match inner.guard.admit_link(origin) {
        Ok(admission) => link.sit_down(Seat::new(&inner.guard, admission)),
        Err(refusal) => {
            return refuse_if(refusal.tell, &inner, link, refusal.reason()).instrument(span).await;
        }
    }
    let Some(mut present) = inner.links.enter() else {
        let refusal = inner.guard.refuse(origin, RefusalCause::Full);
        return refuse_if(refusal.tell, &inner, link, refusal.reason()).instrument(span).await;
    };
    let handshake = match inner.handshakes.begin(origin.address()) {
        Ok(handshake) => handshake,
        Err(reason) => {
            drop(present);
            let refusal = inner.guard.refuse(origin, RefusalCause::Handshakes);
            return refuse_if(refusal.tell, &inner, link, reason).instrument(span).await;
        }
    };
    let work = async {
        // Nothing has been promised to a peer whose handshake is not done.
        let stop = async {
            inner.reached(Stage::Draining).await;
            draining()
        };
        let contracts = inner.contracts.clone();
        let established = tokio::select! {
            established =
                connection::accept_unless(link, contracts, &inner.security, &inner.options, stop) => established,
            () = inner.reached(Stage::Forced) => return,
        };
        drop(handshake);
        let established = match established {
            Ok(established) => established.boxed(),
            Err(error) => {
                if is_fault(&error) {
                    inner.guard.report(origin);
                }
                return log_failure(&error);
            }
        };
        // A session that goes on over it has a place, and a task that serves it.
        let Some(established) = inner.sessions.go_on(established).await else { return };
        if !present.take_place() {
            let reason = inner.guard.refuse(origin, RefusalCause::Full).reason();
            // Nothing is served on it, and no hook runs.
            let (connection, driver) =
                Driver::new(established, Serving::from(Router::empty()), &inner.options);
            connection.close_with(reason);
            tokio::select! {
                _ = driver => {}
                () = inner.reached(Stage::Forced) => {}
            }
            return;
        }
        let (connection, driver) = Driver::new(established, (inner.make_serving)(), &inner.options);
        let driver = driver.share_reassembly(Arc::clone(&inner.reassembly));
        let mut driver = driver.share_unread(Arc::clone(&inner.unread));
        let _kept = inner.sessions.insert(driver.anchor());
        let (hub, sessions, presence) = (inner.hub.clone(), Arc::clone(&inner.sessions), present.presence());
        driver.watch_link(Arc::new(move |connection, there| {
            presence.set(there);
            hub.link_changed(connection, there);
            sessions.link_changed(connection, there);
        }));
        span.record("id", connection.id().get());
        tracing::debug!("connected");
        present.open(connection.clone());
        // Whoever comes in while the server begins to drain has missed the call.
        if *inner.stage.borrow() >= Stage::Draining {
            connection.drain(inner.drain_timeout);
        }
        if *inner.stage.borrow() >= Stage::Stopping {
            connection.close_with(stopped());
        }
        if *inner.stage.borrow() == Stage::Forced {
            connection.abort();
        }
        let reason = driver.await;
        present.leave_groups();
        if connection.is_peer_at_fault() {
            inner.guard.report(origin);
        }
        if reason.is_normal() || reason.code == CloseCode::Lost {
            tracing::debug!(%reason, "disconnected");
        } else {
            tracing::info!(%reason, "disconnected");
        }
        let context =
            Context::new(connection, Arc::clone(inner.router.states()), inner.router.limits().clone());
        connection::run_disconnected(&inner.router, &context, &reason).await;
    };
    // Entering a span at every poll costs a little even when nobody listens.
    if span.is_disabled() {
        work.await;
    } else {
        work.instrument(span.clone()).await;
    }
    drop(present);
}

async fn refuse_if(tell: bool, inner: &Inner, link: impl Link, reason: CloseReason) {
    if tell {
        refuse(inner, link, reason).await;
    }
}

async fn refuse(inner: &Inner, link: impl Link, reason: CloseReason) {
    if let Some(_courtesy) = inner.links.courtesy() {
        connection::refuse(link, reason, &inner.options).await;
    }
}

/// What those are told who are cut off.
pub(crate) fn stopped() -> CloseReason {
    CloseReason::new(CloseCode::GoingAway, "the server has stopped").with_advice(Advice::Reconnect)
}

fn draining() -> CloseReason {
    CloseReason::new(CloseCode::GoingAway, "the server is draining").with_advice(Advice::Reconnect)
}

/// Whether a handshake failed since its client does not keep to the protocol. To be cut off, or to have another key, is no
/// fault.
fn is_fault(error: &ConnectError) -> bool {
    match error {
        ConnectError::Protocol(ProtocolError::CutRecord { .. }) => false,
        ConnectError::Protocol(_) => true,
        ConnectError::Refused(reason) => reason.by == Side::Local && reason.code == CloseCode::ProtocolError,
        _ => false,
    }
}

/// A peer that fails its handshake is nobody's fault here, and there may be many.
fn log_failure(error: &ConnectError) {
    tracing::debug!(%error, "handshake failed");
}

/// Whether the next connection may well be accepted. Everything else is a matter of the listener or the machine.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted)
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

const ERROR_PAUSE: Duration = Duration::from_millis(100);
