//! How a request or a send fails.

use std::{error::Error as StdError, time::Duration};

use thiserror::Error;

use crate::{
    error::{DecodeError, EncodeError},
    packet::NoError,
    status::{CloseReason, Code, Status},
};

/// Why something does not wait until a session has a connection again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
pub enum Offline {
    /// It is not to wait.
    #[error("the session has no connection now")]
    NotWaiting,
    /// As many wait already as may, or as many bytes.
    #[error("the session has no connection now, and too much waits for one already")]
    Full,
    /// It has waited for as long as it may.
    #[error("the session has got no connection in time")]
    Expired,
}

/// How a request fails. `E` is the error type that its packet declares, [`NoError`] if it declares none.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RequestError<E = NoError> {
    /// The handler answered with the packet's own error.
    #[error("{0}")]
    Application(E),
    /// The call was refused or failed; see [`Status::code`].
    #[error(transparent)]
    Status(Status),
    /// The answer did not come in time. The peer has been told to stop; the call may have had effects.
    #[error("no answer within the time allowed")]
    Timeout,
    /// The connection ended before the answer came.
    #[error("connection lost before the answer came: {reason}")]
    Disconnected {
        /// Whether the peer may have run the call. If not, it is safe to send it again.
        maybe_executed: bool,
        /// Why the connection ended.
        reason: CloseReason,
    },
    /// The connection had ended before the request could be sent.
    #[error("not sent: {0}")]
    Closed(CloseReason),
    /// The session had no connection, and the request has not waited for one. It was not sent.
    #[error("not sent: {0}")]
    Offline(Offline),
    /// The packet is larger than both sides agreed on. Nothing was sent, and the connection is as good as before.
    #[error("packet is larger than the limit of {limit} bytes")]
    TooLarge {
        /// The limit, in bytes.
        limit: usize,
    },
    /// The packet breaks a rule of its own type, such as a `max_len`. Nothing was sent.
    #[error("packet cannot be sent: {0}")]
    Encode(EncodeError),
    /// The packet is marked `encrypt`, and the connection is not secured. Nothing was sent.
    #[error("not sent: the packet travels encrypted only, and the connection is not encrypted")]
    EncryptionRequired,
    /// The answer is not of the type that the packet declares.
    #[error("answer cannot be read: {0}")]
    Decode(DecodeError),
}

impl<E> RequestError<E> {
    /// Whether the call is known not to have run, so that sending it again (perhaps on a new connection) is safe.
    pub fn is_retryable(&self) -> bool {
        match self {
            RequestError::Status(status) => status.is_retryable(),
            RequestError::Disconnected { maybe_executed, .. } => !maybe_executed,
            RequestError::Closed(_) | RequestError::Offline(_) => true,
            _ => false,
        }
    }

    /// How long the server asks to wait before the call is made again, if it does.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            RequestError::Status(status) => status.retry_after(),
            _ => None,
        }
    }

    /// The status code, if it is a status.
    pub fn code(&self) -> Option<Code> {
        match self {
            RequestError::Status(status) => Some(status.code),
            _ => None,
        }
    }
}

impl<E> From<EncodeError> for RequestError<E> {
    fn from(error: EncodeError) -> Self {
        match error {
            EncodeError::MessageTooLarge { limit } => RequestError::TooLarge { limit },
            other => RequestError::Encode(other),
        }
    }
}

/// How a stream ends before its time, or an item of it fails. `E` is the error type that its packet declares, [`NoError`] if it
/// declares none.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum StreamError<E = NoError> {
    /// The stream has ended with the packet's own error.
    #[error("{0}")]
    Application(E),
    /// The stream was refused or has failed; see [`Status::code`].
    #[error(transparent)]
    Status(Status),
    /// Its deadline has passed. The peer has been told to stop.
    #[error("the stream did not end within the time allowed")]
    Timeout,
    /// The connection has ended before the stream.
    #[error("connection lost before the end of the stream: {0}")]
    Disconnected(CloseReason),
    /// An item or the end is not of the type that the packet declares. After an item, the stream goes on.
    #[error("item cannot be read: {0}")]
    Decode(DecodeError),
}

impl<E> StreamError<E> {
    /// The status code, if it is a status.
    pub fn code(&self) -> Option<Code> {
        match self {
            StreamError::Status(status) => Some(status.code),
            _ => None,
        }
    }

    /// Whether asking again (perhaps on a new connection) is worth it and safe: the stream is known not to have begun.
    pub fn is_retryable(&self) -> bool {
        matches!(self, StreamError::Status(status) if status.is_retryable())
    }
}

/// How sending a one-way packet, or a chunk of an upload, fails.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SendError {
    /// The connection has ended.
    #[error("not sent: {0}")]
    Closed(CloseReason),
    /// The session had no connection, and the packet has not waited for one.
    #[error("not sent: {0}")]
    Offline(Offline),
    /// The outbox is full: the peer does not read as fast as this side sends. Only from `try_send`.
    #[error("not sent: the outbox is full")]
    Full,
    /// The peer wants no more of this upload. How the call has ended, its answer says.
    #[error("not sent: the other side takes no more of this upload")]
    Stopped,
    /// The packet is larger than both sides agreed on.
    #[error("packet is larger than the limit of {limit} bytes")]
    TooLarge {
        /// The limit, in bytes.
        limit: usize,
    },
    /// The packet breaks a rule of its own type, such as a `max_len`.
    #[error("packet cannot be sent: {0}")]
    Encode(EncodeError),
    /// The packet is marked `encrypt`, and the connection is not secured.
    #[error("not sent: the packet travels encrypted only, and the connection is not encrypted")]
    EncryptionRequired,
}

impl SendError {
    /// Whether sending it again later, or on a new connection, may succeed. It has not been sent.
    pub fn is_retryable(&self) -> bool {
        matches!(self, SendError::Closed(_) | SendError::Offline(_) | SendError::Full)
    }
}

impl From<EncodeError> for SendError {
    fn from(error: EncodeError) -> Self {
        match error {
            EncodeError::MessageTooLarge { limit } => SendError::TooLarge { limit },
            other => SendError::Encode(other),
        }
    }
}

const _: () = {
    const fn is_error<E: StdError + Send + Sync + 'static>() {}
    is_error::<SendError>();
    is_error::<RequestError<SendError>>();
    is_error::<StreamError<SendError>>();
};
