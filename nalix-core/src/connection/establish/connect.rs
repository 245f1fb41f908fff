//! The handshake of the side that connects.

use std::time::SystemTime;

use tokio::time::Instant;

use super::{
    ConnectError, Established, Lasting, establish, farewell,
    io::{abort, fill, read, within, write},
    settle, unexpected,
};
use crate::{
    connection::Options,
    error::ProtocolError,
    frame::Control,
    handshake::{self, Attach, ClientSecurity, Connected, Contracts, Initiator, MAX_HELLO, Params},
    link::Link,
    record::RecordKind,
    session::{Frame, Inbound, Record, control_of},
};

/// Opens a connection as the side that connects.
///
/// Not cancel safe: a handshake that is dropped half-way leaves the link unusable.
///
/// # Errors
/// [`ConnectError`]; where the fault is this side's to find, the peer is told before the link is closed.
pub async fn connect<L: Link>(
    link: L,
    contracts: Contracts,
    security: &ClientSecurity,
    options: &Options,
) -> Result<Established<L>, ConnectError> {
    connect_early(link, contracts, security, &[], options).await
}

/// As [`connect`], and sends frames along with the hello if a session is resumed, which saves them a round trip.
/// [`Established::early_sent`] says whether they went.
///
/// # Errors
/// As [`connect`]. The peer may have taken the frames nevertheless.
pub async fn connect_early<L: Link>(
    link: L,
    contracts: Contracts,
    security: &ClientSecurity,
    early: &[u8],
    options: &Options,
) -> Result<Established<L>, ConnectError> {
    let options = options.clone().in_range();
    let params = options.params(contracts);
    open(link, params, security, early, &options).await
}

/// As [`connect`], and asks to go on with a session whose link was lost: [`Anchor::attach`](crate::connection::Anchor::offer) says
/// what to ask for. Waits until the peer has said whether it does, which [`Established::is_attached`] tells.
///
/// If it does not, it has opened a new session in its place, for a [`Driver`](crate::connection::Driver) of its own.
///
/// Not cancel safe, as [`connect`]; the session itself is not harmed and can be asked for again.
///
/// # Errors
/// As [`connect`].
pub async fn connect_attached<L: Link>(
    link: L,
    contracts: Contracts,
    security: &ClientSecurity,
    attach: Attach,
    options: &Options,
) -> Result<Established<L>, ConnectError> {
    let options = options.clone().in_range();
    let mut params = options.params(contracts);
    params.lasting = handshake::Lasting::Attach(attach);
    let began = Instant::now();
    let mut established = open(link, params, security, &[], &options).await?;
    if established.lasting.is_some() {
        let left = options.handshake_timeout.saturating_sub(began.elapsed());
        within(left, first_words(&mut established)).await?;
    }
    Ok(established)
}

/// Waits for what the peer says first on a link that a session is to go on over.
async fn first_words<L: Link>(established: &mut Established<L>) -> Result<(), ConnectError> {
    let Established { link, inbound, outbound, lasting, .. } = established;
    // The server does nothing before it has this.
    write(link, &outbound.take(Vec::new())).await?;
    let mut frame = Frame::empty();
    while !inbound.read_frame(&mut frame).map_err(ConnectError::Protocol)? {
        fill(link, inbound).await?;
    }
    inbound.uncount();
    match control_of(&frame) {
        Some(Control::Resumed { received }) => *lasting = Some(Lasting::Resumed(received)),
        Some(Control::Fresh) => {}
        Some(Control::Close(reason)) => return Err(ConnectError::Refused(reason)),
        _ => {
            let what = "no word of the session comes first";
            return Err(ConnectError::Protocol(ProtocolError::BadFrame { what }));
        }
    }
    Ok(())
}

async fn open<L: Link>(
    mut link: L,
    params: Params,
    security: &ClientSecurity,
    early: &[u8],
    options: &Options,
) -> Result<Established<L>, ConnectError> {
    let mut inbound = Inbound::new(MAX_HELLO);
    let shake = async {
        let (initiator, hello) = Initiator::start(params, security, early)?;
        write(&mut link, &hello).await?;
        let body = match read(&mut link, &mut inbound).await? {
            Record { kind: RecordKind::HelloReply, body } => body,
            Record { kind: RecordKind::Abort, body } => {
                return Err(ConnectError::Refused(handshake::read_abort(&body)));
            }
            Record { kind, .. } => return Err(unexpected(kind)),
        };
        Ok(initiator.finish(&body, SystemTime::now())?)
    };
    match within(options.handshake_timeout, shake).await {
        Ok(Connected { terms, secrets, server_key, ticket, kept, resumed, early }) => {
            let secured = secrets.is_some();
            let mut outbound = establish(&mut inbound, &terms, secrets);
            if secured && !resumed {
                // The server waits for this. A ticket, which can be used once, has proven as much.
                outbound.append_of_link(&Control::Ready);
            }
            let mut established = settle(link, (inbound, outbound), terms, server_key, None, options);
            established.lasting = kept.map(Lasting::New);
            established.ticket = ticket;
            (established.resumed, established.early_sent) = (resumed, early);
            Ok(established)
        }
        Err(error) => {
            if let Some(reason) = farewell(&error) {
                abort(&mut link, &mut inbound, &reason, options.close_timeout).await;
            }
            Err(error)
        }
    }
}
