//! How far a connection is on its way to its end.

use tokio::time::Instant;

use crate::status::{Advice, CloseCode, CloseReason, Code, Status};

/// A connection only moves downwards.
#[derive(Debug)]
pub(super) enum Phase {
    /// Calls come and go.
    Open,
    /// Nothing new is started; closes when nothing runs, or at the instant.
    Draining {
        /// When it closes whatever still runs. `None`: never, since the time is beyond what can be told.
        until: Option<Instant>,
    },
    /// The reason is in the outbox; what is there is being written.
    Closing {
        reason: CloseReason,
        /// When it gives up. `None`: never, as above.
        until: Option<Instant>,
    },
    /// All is written and our direction is shut; the peer may still be reading, and would lose what it has not read
    /// yet if the link were dropped while its own bytes are unread here.
    Lingering { reason: CloseReason, until: Option<Instant> },
}

impl Phase {
    /// Whether new calls are started.
    pub(super) fn is_open(&self) -> bool {
        matches!(self, Phase::Open)
    }

    /// Whether the goodbye has been said already.
    pub(super) fn is_closing(&self) -> bool {
        matches!(self, Phase::Closing { .. } | Phase::Lingering { .. })
    }

    /// When something must happen whatever the peer does.
    pub(super) fn until(&self) -> Option<Instant> {
        match self {
            Phase::Open => None,
            Phase::Draining { until } | Phase::Closing { until, .. } | Phase::Lingering { until, .. } => {
                *until
            }
        }
    }
}

/// Why a connection that has drained ends.
pub(super) fn going_away() -> CloseReason {
    CloseReason::new(CloseCode::GoingAway, "drained").with_advice(Advice::Reconnect)
}

/// What calls are told that come when nothing new is started any more.
pub(super) fn draining() -> Status {
    Status::new(Code::Unavailable, "this side is about to close").with_advice(Advice::Reconnect)
}
