//! How a session is, and what happens to it.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use nalix_core::{CloseReason, Connection, connection::ConnectError};
use tokio::sync::broadcast::{self, error::RecvError};

/// How a session is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionState {
    /// Requests can be made.
    Connected,
    /// The server has said that it will close soon. It finishes what runs, answers new requests with
    /// [`Code::Unavailable`](nalix_core::Code) and drops one-way packets.
    Draining {
        /// When it will close at the latest. `None` if that is too far away to tell.
        deadline: Option<Instant>,
    },
    /// It has no connection and looks for one. Requests wait.
    Reconnecting {
        /// Which attempt is made or comes next, from 1, counted from the last connection that was stable.
        attempt: u32,
        /// Why there is no connection: how the last one has ended, or how the last attempt has failed.
        cause: Cause,
        /// When the attempt is made. `None`: it is being made.
        next: Option<Instant>,
    },
    /// It is over.
    Closed(CloseReason),
}

/// Why a session has no connection.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Cause {
    /// It had one, which has ended.
    Lost(CloseReason),
    /// The last attempt has failed.
    Failed(Arc<ConnectError>),
}

/// Failures are the same if they are of the same attempt.
impl PartialEq for Cause {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Cause::Lost(a), Cause::Lost(b)) => a == b,
            (Cause::Failed(a), Cause::Failed(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

impl Eq for Cause {}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Lost(reason) => reason.fmt(f),
            Cause::Failed(error) => error.fmt(f),
        }
    }
}

/// What happens to a session, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionEvent {
    /// The connection is gone, and the session looks for one.
    Lost(CloseReason),
    /// An attempt comes after a delay.
    Retrying {
        /// Which, from 1, counted from the last connection that was stable.
        attempt: u32,
        /// How long it waits before.
        delay: Duration,
    },
    /// An attempt has failed.
    Failed {
        /// Which.
        attempt: u32,
        /// Why.
        cause: Cause,
    },
    /// The session goes on where it was: nothing is lost, and nothing comes twice.
    Resumed,
    /// The session has a connection again, on which everything begins anew.
    Fresh {
        /// How many calls were in flight when the connection was lost. They have ended with
        /// [`RequestError::Disconnected`](nalix_core::RequestError), unless their packets are idempotent. One-way packets that
        /// were on their way may be lost as well, in either direction.
        lost: usize,
    },
    /// The session is over. Nothing follows.
    Closed(CloseReason),
}

/// What happens to a session from when it was asked for. Made by [`Session::events`](crate::Session::events).
#[derive(Debug)]
pub struct Events {
    source: Source,
}

#[derive(Debug)]
enum Source {
    Session(broadcast::Receiver<SessionEvent>),
    /// A session that ends with its connection.
    Connection(Connection),
    Over,
}

impl Events {
    pub(super) fn of_session(receiver: broadcast::Receiver<SessionEvent>) -> Self {
        Self { source: Source::Session(receiver) }
    }

    pub(super) fn of_connection(connection: Connection) -> Self {
        Self { source: Source::Connection(connection) }
    }

    pub(super) fn over() -> Self {
        Self { source: Source::Over }
    }

    /// Waits for the next event. `None` when the session is over. Of those that have not been read, the last 64 are kept.
    /// Cancel safe.
    pub async fn next(&mut self) -> Option<SessionEvent> {
        let event = match &mut self.source {
            Source::Session(receiver) => loop {
                match receiver.recv().await {
                    Ok(event) => return Some(event),
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => break None,
                }
            },
            Source::Connection(connection) => Some(SessionEvent::Closed(connection.closed().await)),
            Source::Over => None,
        };
        self.source = Source::Over;
        event
    }
}
