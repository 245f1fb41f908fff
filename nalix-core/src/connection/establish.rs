//! From a link to an established connection: the handshake's reads and writes.

use std::{
    fmt,
    future::{Future, poll_fn},
    io,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::Poll,
    time::Duration,
};

use thiserror::Error;
use tokio::time::timeout;

use super::Options;
use crate::{
    ConnectionId,
    error::ProtocolError,
    handshake::{self, Contracts, Hello, HelloReply, MAX_HELLO, MAX_HELLO_REPLY, Mismatch, Params, Terms},
    link::Link,
    peer::{Setup, Shared},
    record::{self, RecordKind},
    session::{Inbound, Record},
    status::{CloseCode, CloseReason},
};

/// A link whose handshake is done, for a [`Driver`](super::Driver) to take over.
pub struct Established<L> {
    pub(super) link: L,
    pub(super) inbound: Inbound,
    pub(super) shared: Arc<Shared>,
}

impl<L> fmt::Debug for Established<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Established").field("shared", &self.shared).finish_non_exhaustive()
    }
}

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
                !matches!(reason.code, CloseCode::Incompatible | CloseCode::ProtocolError)
                    && reason.advice != crate::Advice::GiveUp
            }
            _ => false,
        }
    }
}

/// Opens a connection as the side that connects.
///
/// Not cancel safe: a handshake that is dropped half-way leaves the link unusable.
///
/// # Errors
/// [`ConnectError`]; where the fault is this side's to find, the peer is told before the link is closed.
pub async fn connect<L: Link>(
    mut link: L,
    contracts: Contracts,
    options: &Options,
) -> Result<Established<L>, ConnectError> {
    let options = options.clone().in_range();
    let params = Params::new(options.max_message, options.max_calls, contracts);
    let mut inbound = Inbound::new(MAX_HELLO_REPLY);
    let shake = async {
        let hello = Hello::new(&params);
        let packets = hello.fingerprints.len();
        let hello = hello.body();
        if hello.len() > MAX_HELLO {
            let message = format!("the fingerprints of {packets} packets do not fit a hello");
            return Err(ConnectError::Configuration(message));
        }
        write(&mut link, &record::build(RecordKind::Hello, &hello)).await?;
        let body = match read(&mut link, &mut inbound).await? {
            Record { kind: RecordKind::HelloReply, body } => body,
            Record { kind: RecordKind::Abort, body } => {
                return Err(ConnectError::Refused(handshake::read_abort(&body)));
            }
            Record { kind, .. } => return Err(unexpected(kind)),
        };
        let reply = HelloReply::parse(&body).map_err(ConnectError::Protocol)?;
        match handshake::finish(&reply, &params) {
            Ok(Some(terms)) => Ok(terms),
            Ok(None) => Err(ConnectError::Version),
            Err(mismatch) => Err(ConnectError::Incompatible(mismatch)),
        }
    };
    let terms = within(options.handshake_timeout, shake).await;
    settle(link, inbound, terms, &options).await
}

/// Opens a connection as the side that accepts.
///
/// Not cancel safe: a handshake that is dropped half-way leaves the link unusable.
///
/// # Errors
/// [`ConnectError`]; the peer is told why before the link is closed.
pub async fn accept<L: Link>(
    link: L,
    contracts: Contracts,
    options: &Options,
) -> Result<Established<L>, ConnectError> {
    accept_unless(link, contracts, options, std::future::pending()).await
}

/// As [`accept`], but refuses the peer for the reason that `stop` resolves to if the handshake is not done by then.
///
/// # Errors
/// As [`accept`].
pub async fn accept_unless<L: Link>(
    mut link: L,
    contracts: Contracts,
    options: &Options,
    stop: impl Future<Output = CloseReason>,
) -> Result<Established<L>, ConnectError> {
    let options = options.clone().in_range();
    let params = Params::new(options.max_message, options.max_calls, contracts);
    let mut inbound = Inbound::new(MAX_HELLO);
    let shake = async {
        let body = match read(&mut link, &mut inbound).await? {
            Record { kind: RecordKind::Hello, body } => body,
            Record { kind: RecordKind::Abort, body } => {
                return Err(ConnectError::Refused(handshake::read_abort(&body)));
            }
            Record { kind, .. } => return Err(unexpected(kind)),
        };
        let hello = Hello::parse(&body).map_err(ConnectError::Protocol)?;
        let (reply, terms) = handshake::accept(&hello, &params).map_err(ConnectError::Refused)?;
        write(&mut link, &record::build(RecordKind::HelloReply, &reply.body())).await?;
        Ok(terms)
    };
    let terms = unless(stop, within(options.handshake_timeout, shake)).await;
    settle(link, inbound, terms, &options).await
}

/// Turns a link away before its handshake.
pub async fn refuse<L: Link>(mut link: L, reason: CloseReason, options: &Options) {
    abort(&mut link, &mut Inbound::new(MAX_HELLO), &reason, options.close_timeout).await;
}

/// Sets the connection up, or says goodbye to the peer.
async fn settle<L: Link>(
    mut link: L,
    mut inbound: Inbound,
    terms: Result<Terms, ConnectError>,
    options: &Options,
) -> Result<Established<L>, ConnectError> {
    let terms = match terms {
        Ok(terms) => terms,
        Err(error) => {
            if let Some(reason) = farewell(&error) {
                abort(&mut link, &mut inbound, &reason, options.close_timeout).await;
            }
            return Err(error);
        }
    };
    inbound.establish(terms.max_message);
    let setup = Setup {
        id: next_id(),
        peer_addr: link.peer_addr(),
        local_addr: link.local_addr(),
        direct: link.direct(),
        terms,
        outbox: options.outbox,
        request_timeout: options.request_timeout,
    };
    Ok(Established { link, inbound, shared: Arc::new(Shared::new(setup)) })
}

/// Tells the peer why there will be no connection. It may be gone or deaf: this is a courtesy, and bounded.
async fn abort<L: Link>(link: &mut L, inbound: &mut Inbound, reason: &CloseReason, time: Duration) {
    let record = record::build(RecordKind::Abort, &handshake::abort_body(reason));
    let told = async {
        write(link, &record).await?;
        poll_fn(|cx| link.poll_close(cx)).await?;
        // A link that is dropped with unread bytes may take the abort back that the peer has not read yet.
        drain(link, inbound).await
    };
    if let Err(error) = within(time, told).await {
        tracing::debug!(%error, "the peer may not have been told why");
    }
}

/// What the peer is told, if the link can still carry it.
fn farewell(error: &ConnectError) -> Option<CloseReason> {
    let code = match error {
        ConnectError::Io(_) | ConnectError::Dial { .. } | ConnectError::Address { .. } => return None,
        // Whoever was refused by the peer has nothing to tell it; whoever refuses has the reason at hand.
        ConnectError::Refused(reason) => {
            return (reason.by == crate::Side::Local).then(|| reason.clone());
        }
        ConnectError::Timeout(_) => CloseCode::HandshakeTimeout,
        ConnectError::Incompatible(_) | ConnectError::Version => CloseCode::Incompatible,
        ConnectError::Protocol(_) => CloseCode::ProtocolError,
        ConnectError::Configuration(_) => CloseCode::Internal,
    };
    Some(CloseReason::new(code, error.to_string()))
}

async fn within<T, E: Into<ConnectError>>(
    time: Duration,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, ConnectError> {
    if time.is_zero() {
        // A timer would let through what is ready at once.
        return Err(ConnectError::Timeout(time));
    }
    match timeout(time, work).await {
        Ok(done) => done.map_err(Into::into),
        Err(_) => Err(ConnectError::Timeout(time)),
    }
}

/// Does the work until `stop` says why it must not go on.
async fn unless<T>(
    stop: impl Future<Output = CloseReason>,
    work: impl Future<Output = Result<T, ConnectError>>,
) -> Result<T, ConnectError> {
    let (mut stop, mut work) = (pin!(stop), pin!(work));
    poll_fn(|cx| match stop.as_mut().poll(cx) {
        Poll::Ready(reason) => Poll::Ready(Err(ConnectError::Refused(reason))),
        Poll::Pending => work.as_mut().poll(cx),
    })
    .await
}

async fn read<L: Link>(link: &mut L, inbound: &mut Inbound) -> Result<Record, ConnectError> {
    loop {
        if let Some(record) = inbound.next_record().map_err(ConnectError::Protocol)? {
            return Ok(record);
        }
        if poll_fn(|cx| link.poll_read(cx, inbound.buffer())).await? == 0 {
            inbound.end().map_err(ConnectError::Protocol)?;
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
    }
}

async fn write<L: Link>(link: &mut L, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match poll_fn(|cx| link.poll_write(cx, bytes)).await? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            n => bytes = &bytes[n..],
        }
    }
    Ok(())
}

async fn drain<L: Link>(link: &mut L, inbound: &mut Inbound) -> io::Result<()> {
    loop {
        let buffer = inbound.buffer();
        buffer.clear();
        if poll_fn(|cx| link.poll_read(cx, buffer)).await? == 0 {
            return Ok(());
        }
    }
}

fn unexpected(kind: RecordKind) -> ConnectError {
    ConnectError::Protocol(ProtocolError::UnexpectedRecord { found: kind.name() })
}

fn next_id() -> ConnectionId {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    ConnectionId::new(NEXT.fetch_add(1, Ordering::Relaxed))
}
