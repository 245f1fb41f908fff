//! How a call fails, and why a connection ends, in terms both sides understand.

use std::{borrow::Cow, fmt, time::Duration};

/// Why a call failed. The meanings are those of the gRPC status codes, with two of our own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Code {
    /// The caller cancelled the call.
    Cancelled,
    /// The arguments are wrong whatever the state of the server.
    InvalidArgument,
    /// The deadline passed before the call was done. It may have had effects.
    DeadlineExceeded,
    /// What was asked for does not exist.
    NotFound,
    /// What was to be created exists.
    AlreadyExists,
    /// The caller is known and may not do this.
    PermissionDenied,
    /// A quota, rate or capacity is used up.
    ResourceExhausted,
    /// The system is not in the state that this call needs.
    FailedPrecondition,
    /// A conflict with a concurrent operation.
    Aborted,
    /// A value is outside the valid range.
    OutOfRange,
    /// No handler for this packet here.
    Unimplemented,
    /// Something broke in the server. Details stay there.
    Internal,
    /// The server cannot serve now, for instance since it is draining. The call did not run.
    Unavailable,
    /// Unrecoverable loss of data.
    DataLoss,
    /// The caller is not known.
    Unauthenticated,
    /// The payload is not the packet that its opcode names.
    Malformed,
    /// The packet must be sealed and was not.
    EncryptionRequired,
    /// A code that this version does not know.
    Other(u16),
}

impl Code {
    /// The number on the wire.
    pub const fn to_u16(self) -> u16 {
        match self {
            Code::Cancelled => 1,
            Code::InvalidArgument => 3,
            Code::DeadlineExceeded => 4,
            Code::NotFound => 5,
            Code::AlreadyExists => 6,
            Code::PermissionDenied => 7,
            Code::ResourceExhausted => 8,
            Code::FailedPrecondition => 9,
            Code::Aborted => 10,
            Code::OutOfRange => 11,
            Code::Unimplemented => 12,
            Code::Internal => 13,
            Code::Unavailable => 14,
            Code::DataLoss => 15,
            Code::Unauthenticated => 16,
            Code::Malformed => 32,
            Code::EncryptionRequired => 33,
            Code::Other(n) => n,
        }
    }

    /// The code of a number; unknown ones become [`Code::Other`].
    pub const fn from_u16(n: u16) -> Self {
        match n {
            1 => Code::Cancelled,
            3 => Code::InvalidArgument,
            4 => Code::DeadlineExceeded,
            5 => Code::NotFound,
            6 => Code::AlreadyExists,
            7 => Code::PermissionDenied,
            8 => Code::ResourceExhausted,
            9 => Code::FailedPrecondition,
            10 => Code::Aborted,
            11 => Code::OutOfRange,
            12 => Code::Unimplemented,
            13 => Code::Internal,
            14 => Code::Unavailable,
            15 => Code::DataLoss,
            16 => Code::Unauthenticated,
            32 => Code::Malformed,
            33 => Code::EncryptionRequired,
            n => Code::Other(n),
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Code::Other(n) => write!(f, "code {n}"),
            known => fmt::Debug::fmt(known, f),
        }
    }
}

/// What the side that failed a call, or closed, suggests to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Advice {
    /// Nothing in particular.
    #[default]
    None,
    /// Try again, after the given time if there is one. The call did not run.
    Retry {
        /// How long to wait, in whole milliseconds on the wire.
        after: Option<Duration>,
    },
    /// Connect anew, then try again.
    Reconnect,
    /// Authenticate, then try again.
    Authenticate,
    /// Trying again will not help.
    GiveUp,
}

/// The failure of one call, other than the error type its packet declares.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// What kind of failure.
    pub code: Code,
    /// For people to read; at most 1,024 bytes travel.
    pub message: Cow<'static, str>,
    /// What to do next.
    pub advice: Advice,
}

impl Status {
    /// A status without advice.
    pub fn new(code: Code, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into(), advice: Advice::None }
    }

    /// Replaces the advice.
    #[must_use]
    pub fn with_advice(mut self, advice: Advice) -> Self {
        self.advice = advice;
        self
    }

    /// How long the server asks to wait before trying again, if it does.
    pub fn retry_after(&self) -> Option<Duration> {
        match self.advice {
            Advice::Retry { after } => after,
            _ => None,
        }
    }

    /// Whether the call is known not to have run, so that sending it again is safe and may succeed.
    pub fn is_retryable(&self) -> bool {
        matches!(self.advice, Advice::Retry { .. } | Advice::Reconnect) || self.code == Code::Unavailable
    }

    /// [`Code::InvalidArgument`].
    pub fn invalid_argument(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::InvalidArgument, message)
    }

    /// [`Code::NotFound`].
    pub fn not_found(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::NotFound, message)
    }

    /// [`Code::AlreadyExists`].
    pub fn already_exists(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::AlreadyExists, message)
    }

    /// [`Code::FailedPrecondition`].
    pub fn failed_precondition(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::FailedPrecondition, message)
    }

    /// [`Code::Aborted`].
    pub fn aborted(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::Aborted, message)
    }

    /// [`Code::OutOfRange`].
    pub fn out_of_range(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::OutOfRange, message)
    }

    /// [`Code::Unauthenticated`], with advice to authenticate.
    pub fn unauthenticated(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::Unauthenticated, message).with_advice(Advice::Authenticate)
    }

    /// [`Code::PermissionDenied`].
    pub fn permission_denied(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::PermissionDenied, message)
    }

    /// [`Code::Internal`]. The message travels: keep internals out of it.
    pub fn internal(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::Internal, message)
    }

    /// [`Code::ResourceExhausted`], with advice to try again.
    pub fn resource_exhausted(message: impl Into<Cow<'static, str>>, retry_after: Option<Duration>) -> Self {
        Self::new(Code::ResourceExhausted, message).with_advice(Advice::Retry { after: retry_after })
    }

    /// [`Code::Unavailable`], with advice to try again.
    pub fn unavailable(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::Unavailable, message).with_advice(Advice::Retry { after: None })
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.code)?;
        if !self.message.is_empty() {
            write!(f, ": {}", OneLine(&self.message))?;
        }
        if let Some(after) = self.retry_after() {
            write!(f, " (retry after {after:?})")?;
        }
        Ok(())
    }
}

impl std::error::Error for Status {}

/// How a handler fails whose packet declares an error type: with that error, or with a [`Status`].
///
/// `?` converts from a [`Status`], and from error types with `derive(Wire)` that are not generic; for others, there is
/// `.map_err(Failure::Application)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure<E> {
    /// The packet's own error type.
    Application(E),
    /// Any other failure.
    Status(Status),
}

impl<E> From<Status> for Failure<E> {
    fn from(status: Status) -> Self {
        Failure::Status(status)
    }
}

impl<E: fmt::Display> fmt::Display for Failure<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Application(e) => e.fmt(f),
            Failure::Status(s) => s.fmt(f),
        }
    }
}

impl<E: std::error::Error + 'static> std::error::Error for Failure<E> {}

/// Why a connection ended, as a number on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CloseCode {
    /// One side is done.
    Normal,
    /// The server shuts down or sheds its connections.
    GoingAway,
    /// Bytes that are not this protocol.
    ProtocolError,
    /// The peers' protocol versions or packet contracts do not fit.
    Incompatible,
    /// The handshake was not finished in time.
    HandshakeTimeout,
    /// The peer did not read what was sent to it in time.
    SlowConsumer,
    /// The connection carried no application traffic for too long.
    IdleTimeout,
    /// A limit of the connection is used up.
    LimitExceeded,
    /// Something broke in the side that closes.
    Internal,
    /// The link broke without a word from the peer. Never sent.
    Lost,
    /// Something came in the clear, and this side takes it encrypted only.
    EncryptionRequired,
    /// The cryptographic handshake did not verify: it was made for another key, or somebody changed it on its way.
    HandshakeFailed,
    /// A sealed record did not open: somebody changed, left out, repeated or moved something.
    DecryptFailed,
    /// The ticket is not known any more: it has been used, has expired or was revoked.
    TicketRefused,
    /// The client's key is missing or not accepted.
    KeyRefused,
    /// The peer was sent a ping and said nothing at all for too long.
    KeepAliveTimeout,
    /// A code that this version does not know.
    Other(u16),
}

impl CloseCode {
    /// The number on the wire.
    pub const fn to_u16(self) -> u16 {
        match self {
            CloseCode::Normal => 0,
            CloseCode::GoingAway => 1,
            CloseCode::ProtocolError => 2,
            CloseCode::Incompatible => 3,
            CloseCode::HandshakeTimeout => 4,
            CloseCode::SlowConsumer => 5,
            CloseCode::IdleTimeout => 6,
            CloseCode::LimitExceeded => 7,
            CloseCode::Internal => 8,
            CloseCode::Lost => 9,
            CloseCode::EncryptionRequired => 10,
            CloseCode::HandshakeFailed => 11,
            CloseCode::DecryptFailed => 12,
            CloseCode::TicketRefused => 13,
            CloseCode::KeyRefused => 14,
            CloseCode::KeepAliveTimeout => 15,
            CloseCode::Other(n) => n,
        }
    }

    /// The code of a number; unknown ones become [`CloseCode::Other`].
    pub const fn from_u16(n: u16) -> Self {
        match n {
            0 => CloseCode::Normal,
            1 => CloseCode::GoingAway,
            2 => CloseCode::ProtocolError,
            3 => CloseCode::Incompatible,
            4 => CloseCode::HandshakeTimeout,
            5 => CloseCode::SlowConsumer,
            6 => CloseCode::IdleTimeout,
            7 => CloseCode::LimitExceeded,
            8 => CloseCode::Internal,
            9 => CloseCode::Lost,
            10 => CloseCode::EncryptionRequired,
            11 => CloseCode::HandshakeFailed,
            12 => CloseCode::DecryptFailed,
            13 => CloseCode::TicketRefused,
            14 => CloseCode::KeyRefused,
            15 => CloseCode::KeepAliveTimeout,
            n => CloseCode::Other(n),
        }
    }
}

impl fmt::Display for CloseCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CloseCode::Other(n) => write!(f, "close code {n}"),
            known => fmt::Debug::fmt(known, f),
        }
    }
}

/// Which side ended a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// This one.
    Local,
    /// The other one.
    Peer,
}

/// Why a connection ended. Everyone who waited on it gets the same one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CloseReason {
    /// The cause as a code.
    pub code: CloseCode,
    /// For people to read; at most 1,024 bytes travel.
    pub message: Cow<'static, str>,
    /// What to do next.
    pub advice: Advice,
    /// Who closed.
    pub by: Side,
}

impl CloseReason {
    /// A reason of our own, without advice.
    pub fn new(code: CloseCode, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into(), advice: Advice::None, by: Side::Local }
    }

    /// Replaces the advice.
    #[must_use]
    pub fn with_advice(mut self, advice: Advice) -> Self {
        self.advice = advice;
        self
    }

    /// The same reason as seen from the other side.
    #[must_use]
    pub fn by(mut self, by: Side) -> Self {
        self.by = by;
        self
    }

    /// Whether this is an ordinary end: either side was done, or went away as announced.
    pub fn is_normal(&self) -> bool {
        matches!(self.code, CloseCode::Normal | CloseCode::GoingAway)
    }
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = match self.by {
            Side::Local => "us",
            Side::Peer => "the peer",
        };
        write!(f, "closed by {by}: {}", self.code)?;
        if !self.message.is_empty() {
            write!(f, " ({})", OneLine(&self.message))?;
        }
        Ok(())
    }
}

impl std::error::Error for CloseReason {}

/// A text that a peer may have written, without what would let it forge lines of a log or move a terminal's cursor.
struct OneLine<'a>(&'a str);

impl fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write;
        for c in self.0.chars() {
            match c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}') {
                true => write!(f, "{}", c.escape_unicode())?,
                false => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_cannot_forge_a_line_of_a_log() {
        let message = "bye\nERROR forged\u{1b}[2J\u{202e} \u{2028}é\"";
        let shown = CloseReason::new(CloseCode::Normal, message).to_string();
        let expected = r#"closed by us: Normal (bye\u{a}ERROR forged\u{1b}[2J\u{202e} \u{2028}é")"#;
        assert_eq!(shown, expected);
        assert_eq!(Status::not_found("a\r\nb").to_string(), r"NotFound: a\u{d}\u{a}b");
    }
}
