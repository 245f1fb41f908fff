//! The task of a session that finds it a new connection when it has lost one.

use std::{future::Future, sync::Arc, time::Duration};

use nalix_core::{
    CloseCode, CloseReason, Connection,
    connection::{Anchor, ConnectError},
};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until, timeout},
};

use super::{
    Backoff,
    line::{Line, Phase},
    state::{Cause, SessionEvent},
    verdict,
};
use crate::{
    Dial,
    dialer::{Dialer, Opened},
    reconnect_options::ReconnectOptions,
};

/// Connects for the first time, again and again if that is asked for.
pub(crate) async fn first_connect<D: Dial>(dialer: &mut Dialer<D>) -> Result<Opened<D::Link>, ConnectError> {
    let options = dialer.reconnect.clone();
    let mut backoff = backoff(&options);
    loop {
        let error = match dialer.connect(None).await {
            Ok(opened) => return Ok(opened),
            Err(error) => error,
        };
        let again = options.first_connect && verdict::comes_back_from(&error, false);
        if !again || backoff.attempts() >= options.max_attempts {
            return Err(error);
        }
        let delay = backoff.next(verdict::asked_by(&error));
        tracing::debug!(%error, ?delay, "no connection yet");
        tokio::time::sleep(delay).await;
    }
}

/// Watches over the session until it is over.
pub(crate) fn supervise<D: Dial>(
    line: Arc<Line>,
    dialer: Dialer<D>,
    anchor: Anchor<D::Link>,
) -> impl Future<Output = ()> + Send {
    // From now on, and not from the first poll.
    let hints = line.hints();
    watch_over(line, dialer, anchor, hints)
}

async fn watch_over<D: Dial>(
    line: Arc<Line>,
    mut dialer: Dialer<D>,
    mut anchor: Anchor<D::Link>,
    mut hints: watch::Receiver<u64>,
) {
    let mut backoff = backoff(&dialer.reconnect);
    let _end = EndWithTask(Arc::clone(&line));
    loop {
        let since = Instant::now();
        let connection = anchor.connection().clone();
        let reason = lost(&anchor, &mut hints).await;
        if line.is_closing() || !verdict::comes_back_after(&reason) {
            return over(&line, &connection, reason);
        }
        if since.elapsed() >= dialer.reconnect.stable_after {
            backoff.reset();
        }
        line.offline();
        line.event(SessionEvent::Lost(reason.clone()));
        match reestablish(&line, &mut dialer, &mut backoff, (&anchor, &mut hints, reason)).await {
            Ok(Found::Resumed) => {
                line.online(connection);
                line.event(SessionEvent::Resumed);
            }
            Ok(Found::Fresh(opened)) => {
                // What was in flight ends before anything is asked over the new connection.
                connection.abort();
                connection.closed().await;
                let lost = connection.lost_calls();
                anchor = begin_again(&line, &dialer, *opened);
                line.event(SessionEvent::Fresh { lost });
            }
            Err(reason) => return over(&line, &connection, reason),
        }
    }
}

/// Ends the session with its task: with a dialer that panics, or with the runtime.
struct EndWithTask(Arc<Line>);

impl Drop for EndWithTask {
    fn drop(&mut self) {
        self.0.end(CloseReason::new(CloseCode::Internal, "nobody looks for a connection any more"));
    }
}

/// A fresh session over a new connection.
fn begin_again<D: Dial>(line: &Arc<Line>, dialer: &Dialer<D>, opened: Opened<D::Link>) -> Anchor<D::Link> {
    let (ticket, resumed) = (opened.ticket().cloned(), opened.is_resumed());
    let mut started = dialer.start(opened);
    let anchor = started.anchor();
    line.set_standing(ticket, resumed);
    if !line.online(started.connection.clone()) {
        started.connection.close();
    }
    started.run();
    anchor
}

/// The session is over, and with it the last connection if that still waits for a link.
fn over(line: &Line, connection: &Connection, reason: CloseReason) {
    connection.abort();
    line.end(reason);
}

/// Waits until the link is lost or the connection has ended, and probes it when another network may be there.
async fn lost<L>(anchor: &Anchor<L>, hints: &mut watch::Receiver<u64>) -> CloseReason {
    let connection = anchor.connection();
    loop {
        match either(connection.until_detached(), hint(hints)).await {
            Either::First(Some(detached)) => return detached.cause,
            Either::First(None) => return connection.closed().await,
            Either::Second(()) => {
                if timeout(PROBE, connection.ping()).await.is_err() {
                    tracing::debug!("no answer over the new network");
                    match anchor.session() {
                        Some(_) => connection.detach(),
                        None => connection.abort(),
                    }
                }
            }
        }
    }
}

/// With what a session goes on.
enum Found<L> {
    /// Where it was.
    Resumed,
    /// With a new connection.
    Fresh(Box<Opened<L>>),
}

/// Tries until there is a connection.
///
/// # Errors
/// Why the session is over.
async fn reestablish<D: Dial>(
    line: &Line,
    dialer: &mut Dialer<D>,
    backoff: &mut Backoff,
    (anchor, hints, reason): (&Anchor<D::Link>, &mut watch::Receiver<u64>, CloseReason),
) -> Result<Found<D::Link>, CloseReason> {
    // As long as it makes sense to ask for it.
    let mut resumable = Some(anchor);
    let mut asked = verdict::asked(&reason);
    let mut cause = Cause::Lost(reason.clone());
    // What the session is told if there is no further attempt.
    let mut last_word = reason;
    let mut phase = line.phase();
    let (mut began, mut hinted) = (Instant::now(), false);
    loop {
        if backoff.attempts() >= dialer.reconnect.max_attempts {
            return Err(last_word);
        }
        let mut delay = backoff.next(asked);
        if std::mem::take(&mut hinted) {
            delay = delay.min(dialer.reconnect.first_delay);
        }
        let attempt = backoff.attempts();
        let at = Instant::now() + delay;
        line.reconnecting(attempt, &cause, Some(at));
        line.event(SessionEvent::Retrying { attempt, delay });
        tracing::debug!(%cause, attempt, ?delay, "looks for a connection");
        hints.mark_unchanged();
        let waited = async {
            if asked.is_some() {
                // A hint does not take the place of what the server asks for.
                sleep_until(at).await;
            } else if let Either::Second(()) = either(sleep_until(at), hint(hints)).await {
                // However often somebody says so.
                sleep_until(at.min(began + dialer.reconnect.first_delay)).await;
            }
        };
        unless_closed(&mut phase, waited).await?;
        began = Instant::now();
        line.reconnecting(attempt, &cause, None);
        hints.mark_unchanged();
        let dialed = either(dialer.connect(resumable), hint(hints));
        let error = match unless_closed(&mut phase, dialed).await? {
            Either::First(Ok(opened)) if opened.is_attached() => {
                // The one that was used to come here is used up.
                let (ticket, resumed) = (opened.ticket().cloned(), opened.is_resumed());
                match unless_closed(&mut phase, anchor.attach(opened.into_established())).await? {
                    Ok(()) => {
                        line.set_standing(ticket, resumed);
                        return Ok(Found::Resumed);
                    }
                    Err(refused) => {
                        // The server goes on with a session that has just ended here, or cannot: then with another.
                        tracing::debug!(why = ?refused.why, "the session does not go on");
                        resumable = None;
                        ConnectError::Io(std::io::ErrorKind::ConnectionAborted.into())
                    }
                }
            }
            Either::First(Ok(opened)) => return Ok(Found::Fresh(Box::new(opened))),
            Either::First(Err(error)) => error,
            // What was under way went over the network that was there before.
            Either::Second(()) => {
                hinted = true;
                ConnectError::Io(std::io::ErrorKind::NetworkUnreachable.into())
            }
        };
        let again = verdict::comes_back_from(&error, true);
        (asked, last_word) = (verdict::asked_by(&error), verdict::last_word(&error));
        cause = Cause::Failed(Arc::new(error));
        line.event(SessionEvent::Failed { attempt, cause: cause.clone() });
        if !again {
            return Err(last_word);
        }
    }
}

/// Waits for a hint.
async fn hint(hints: &mut watch::Receiver<u64>) {
    // The sender lives as long as the line.
    drop(hints.changed().await);
}

/// The output of a future, unless the session is closed before.
async fn unless_closed<T>(
    phase: &mut watch::Receiver<Phase>,
    future: impl Future<Output = T>,
) -> Result<T, CloseReason> {
    let closed = async { drop(phase.wait_for(|phase| *phase == Phase::Closing).await) };
    match either(closed, future).await {
        Either::First(()) => Err(CloseReason::new(CloseCode::Normal, "")),
        Either::Second(out) => Ok(out),
    }
}

enum Either<A, B> {
    First(A),
    Second(B),
}

/// The output of whichever future is ready first; of two at once, the first. The other is dropped.
async fn either<A, B>(a: impl Future<Output = A>, b: impl Future<Output = B>) -> Either<A, B> {
    let (mut a, mut b) = (std::pin::pin!(a), std::pin::pin!(b));
    std::future::poll_fn(|cx| {
        if let std::task::Poll::Ready(out) = a.as_mut().poll(cx) {
            return std::task::Poll::Ready(Either::First(out));
        }
        b.as_mut().poll(cx).map(Either::Second)
    })
    .await
}

fn backoff(options: &ReconnectOptions) -> Backoff {
    Backoff::new(options.first_delay, options.max_delay)
}

/// How long a connection may take to answer when another network may be there.
const PROBE: Duration = Duration::from_secs(3);
