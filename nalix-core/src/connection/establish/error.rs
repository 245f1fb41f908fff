//! Why there is no connection.

use std::{io, time::Duration};

use thiserror::Error;

use crate::{
    connection::blame::code_of,
    error::ProtocolError,
    handshake::{AnswerError, HelloError, Mismatch},
    status::{CloseCode, CloseReason},
};

/// Why a connection could not be established.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The address is not one that can be connected to.
    #[error("{address:?} is not an address: {what}")]
    Address {
        /// What was given.
        address: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// Something that must be said was not said, or two things contradict each other.
    #[error("{0}")]
    Configuration(String),
    /// The link could not be made in time or at all.
    #[error("cannot connect to {address}: {source}")]
    Dial {
        /// What was to be connected to.
        address: String,
        /// What the system says.
        source: io::Error,
    },
    /// The link broke during the handshake.
    #[error("the link broke during the handshake: {0}")]
    Io(#[from] io::Error),
    /// The handshake took longer than allowed.
    #[error("the handshake took longer than {0:?}: is it a nalix peer?")]
    Timeout(Duration),
    /// The peer refused the connection.
    #[error("refused: {0}")]
    Refused(CloseReason),
    /// A packet that both sides know differs in a way that the rules of growth do not allow.
    #[error("incompatible contracts: {0}")]
    Incompatible(Mismatch),
    /// The peer chose a protocol version that was not offered.
    #[error("the peer speaks another version of the protocol")]
    Version,
    /// The peer has not proven that it has the key that was pinned: it is another server, or somebody on the way has changed
    /// something.
    #[error("the server has not proven that it has the key that was pinned")]
    Unverified,
    /// The peer does not follow the protocol.
    #[error("the peer broke the protocol: {0}")]
    Protocol(ProtocolError),
}

impl ConnectError {
    /// Whether trying again later may succeed with nothing else changed.
    pub fn is_retryable(&self) -> bool {
        match self {
            ConnectError::Dial { .. } | ConnectError::Io(_) | ConnectError::Timeout(_) => true,
            ConnectError::Refused(reason) => {
                !matches!(
                    reason.code,
                    CloseCode::Incompatible
                        | CloseCode::ProtocolError
                        | CloseCode::EncryptionRequired
                        | CloseCode::HandshakeFailed
                        | CloseCode::KeyRefused
                ) && reason.advice != crate::Advice::GiveUp
            }
            _ => false,
        }
    }
}

impl From<HelloError> for ConnectError {
    fn from(error: HelloError) -> Self {
        ConnectError::Configuration(error.to_string())
    }
}

impl From<AnswerError> for ConnectError {
    fn from(error: AnswerError) -> Self {
        match error {
            AnswerError::Protocol(error) => ConnectError::Protocol(error),
            AnswerError::Unverified => ConnectError::Unverified,
            AnswerError::Version => ConnectError::Version,
            AnswerError::Incompatible(mismatch) => ConnectError::Incompatible(mismatch),
        }
    }
}

/// What the peer is told, if the link can still carry it.
pub(super) fn farewell(error: &ConnectError) -> Option<CloseReason> {
    let code = match error {
        ConnectError::Io(_) | ConnectError::Dial { .. } | ConnectError::Address { .. } => return None,
        // Whoever was refused by the peer has nothing to tell it; whoever refuses has the reason at hand.
        ConnectError::Refused(reason) => {
            return (reason.by == crate::Side::Local).then(|| reason.clone());
        }
        ConnectError::Timeout(_) => CloseCode::HandshakeTimeout,
        ConnectError::Incompatible(_) | ConnectError::Version => CloseCode::Incompatible,
        ConnectError::Protocol(error) => code_of(error),
        ConnectError::Unverified => CloseCode::HandshakeFailed,
        ConnectError::Configuration(_) => CloseCode::Internal,
    };
    Some(CloseReason::new(code, error.to_string()))
}
