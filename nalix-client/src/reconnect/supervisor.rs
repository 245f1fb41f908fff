//! The task of a session that finds it a new connection when it has lost one.

use std::{future::Future, sync::Arc, time::Duration};

use nalix_core::{CloseCode, CloseReason, Connection, connection::ConnectError};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until, timeout},
};

use super::{
    Backoff,
    line::{Line, Phase},
    options::ReconnectOptions,
    state::{Cause, SessionEvent},
    verdict,
};
use crate::{
    Dial,
    dialer::{Dialer, Opened},
};

/// Connects for the first time, again and again if that is asked for.
pub(crate) async fn first_connect<D: Dial>(dialer: &mut Dialer<D>) -> Result<Opened<D::Link>, ConnectError> {
    let options = dialer.reconnect.clone();
    let mut backoff = backoff(&options);
    loop {
        let error = match dialer.connect().await {
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
pub(crate) fn supervise<D: Dial>(line: Arc<Line>, dialer: Dialer<D>) -> impl Future<Output = ()> + Send {
    // From now on, and not from the first poll.
    let hints = line.hints();
    watch_over(line, dialer, hints)
}

async fn watch_over<D: Dial>(line: Arc<Line>, mut dialer: Dialer<D>, mut hints: watch::Receiver<u64>) {
    let mut backoff = backoff(&dialer.reconnect);
    loop {
        let since = Instant::now();
        let connection = line.connection();
        let reason = ended(&connection, &mut hints).await;
        if line.is_closing() || !verdict::comes_back_after(&reason) {
            return line.end(reason);
        }
        if since.elapsed() >= dialer.reconnect.stable_after {
            backoff.reset();
        }
        line.offline();
        line.event(SessionEvent::Lost(reason.clone()));
        match reestablish(&line, &mut dialer, &mut backoff, (&mut hints, reason)).await {
            Ok(opened) => {
                let lost = connection.lost_calls();
                let (ticket, resumed) = (opened.ticket().cloned(), opened.is_resumed());
                let started = dialer.start(opened);
                line.set_standing(ticket, resumed);
                let wanted = line.online(started.connection.clone());
                if !wanted {
                    started.connection.close();
                }
                started.run();
                line.event(SessionEvent::Fresh { lost });
            }
            Err(reason) => return line.end(reason),
        }
    }
}

/// Waits for the end of the connection, and probes it when another network may be there.
async fn ended(connection: &Connection, hints: &mut watch::Receiver<u64>) -> CloseReason {
    loop {
        match either(connection.closed(), hint(hints)).await {
            Either::First(reason) => return reason,
            Either::Second(()) => {
                if timeout(PROBE, connection.ping()).await.is_err() {
                    tracing::debug!("no answer over the new network");
                    connection.abort();
                }
            }
        }
    }
}

/// Tries until there is a connection.
///
/// # Errors
/// Why the session is over.
async fn reestablish<D: Dial>(
    line: &Line,
    dialer: &mut Dialer<D>,
    backoff: &mut Backoff,
    (hints, reason): (&mut watch::Receiver<u64>, CloseReason),
) -> Result<Opened<D::Link>, CloseReason> {
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
        let dialed = either(dialer.connect(), hint(hints));
        let error = match unless_closed(&mut phase, dialed).await? {
            Either::First(Ok(opened)) => return Ok(opened),
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
