//! Whether to come back.

use std::time::Duration;

use nalix_core::{Advice, CloseCode, CloseReason, connection::ConnectError};

/// Whether a session that had a connection looks for another, now that this one has ended.
pub(super) fn comes_back_after(reason: &CloseReason) -> bool {
    match reason.advice {
        Advice::GiveUp | Advice::Authenticate => false,
        Advice::Retry { .. } | Advice::Reconnect => true,
        _ => match reason.code {
            // Whoever is done means it.
            CloseCode::Normal => false,
            // What comes on the next connection would be the same.
            CloseCode::ProtocolError
            | CloseCode::Incompatible
            | CloseCode::EncryptionRequired
            | CloseCode::HandshakeFailed
            | CloseCode::KeyRefused => false,
            _ => true,
        },
    }
}

/// Whether another attempt makes sense after this one. `known` says that the session had a connection before: what has
/// answered now and is not the server then may be gone in a moment, such as a network that wants one to log in.
pub(super) fn comes_back_from(error: &ConnectError, known: bool) -> bool {
    match error {
        ConnectError::Protocol(_) | ConnectError::Unverified => known,
        ConnectError::Refused(reason) if reason.advice == Advice::Authenticate => false,
        other => other.is_retryable(),
    }
}

/// How long the peer asks to wait.
pub(super) fn asked(reason: &CloseReason) -> Option<Duration> {
    match reason.advice {
        Advice::Retry { after } => after,
        _ => None,
    }
}

/// How long the peer asks to wait that has refused.
pub(super) fn asked_by(error: &ConnectError) -> Option<Duration> {
    match error {
        ConnectError::Refused(reason) => asked(reason),
        _ => None,
    }
}

/// What a session that gives up ends with.
pub(super) fn last_word(error: &ConnectError) -> CloseReason {
    match error {
        ConnectError::Refused(reason) => reason.clone(),
        ConnectError::Incompatible(_) | ConnectError::Version => {
            CloseReason::new(CloseCode::Incompatible, error.to_string())
        }
        other => CloseReason::new(CloseCode::Lost, other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permanent_reasons_stop_and_others_do_not() {
        let after = Some(Duration::from_secs(1));
        for (code, advice, back) in [
            (CloseCode::Lost, Advice::None, true),
            (CloseCode::GoingAway, Advice::None, true),
            (CloseCode::KeepAliveTimeout, Advice::None, true),
            (CloseCode::IdleTimeout, Advice::None, true),
            (CloseCode::SlowConsumer, Advice::None, true),
            (CloseCode::Internal, Advice::None, true),
            (CloseCode::DecryptFailed, Advice::None, true),
            (CloseCode::LimitExceeded, Advice::Retry { after }, true),
            (CloseCode::LimitExceeded, Advice::GiveUp, false),
            (CloseCode::GoingAway, Advice::GiveUp, false),
            (CloseCode::GoingAway, Advice::Authenticate, false),
            (CloseCode::Normal, Advice::None, false),
            (CloseCode::Normal, Advice::Reconnect, true),
            (CloseCode::Incompatible, Advice::None, false),
            (CloseCode::KeyRefused, Advice::None, false),
            (CloseCode::ProtocolError, Advice::None, false),
        ] {
            let reason = CloseReason::new(code, "").with_advice(advice);
            assert_eq!(comes_back_after(&reason), back, "{reason}");
            if back {
                assert!(comes_back_from(&ConnectError::Refused(reason), true));
            }
        }
        let refused = |code, advice| ConnectError::Refused(CloseReason::new(code, "").with_advice(advice));
        assert!(!comes_back_from(&refused(CloseCode::KeyRefused, Advice::None), true));
        assert!(!comes_back_from(&refused(CloseCode::LimitExceeded, Advice::GiveUp), true));
        assert!(!comes_back_from(&ConnectError::Version, true));
        assert!(!comes_back_from(&refused(CloseCode::GoingAway, Advice::Authenticate), true));
        assert!(comes_back_from(&ConnectError::Unverified, true));
        assert!(!comes_back_from(&ConnectError::Unverified, false));
    }
}
