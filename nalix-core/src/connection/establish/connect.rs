//! The handshake of the side that connects.

use std::time::SystemTime;

use super::{
    ConnectError, Established, establish, farewell,
    io::{abort, read, within, write},
    settle, unexpected,
};
use crate::{
    connection::{Options, writing::put},
    frame::{Control, FrameKind, Head},
    handshake::{self, ClientSecurity, Connected, Contracts, Initiator, MAX_HELLO},
    link::Link,
    record::RecordKind,
    session::{Cover, Inbound, Record},
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
    mut link: L,
    contracts: Contracts,
    security: &ClientSecurity,
    early: &[u8],
    options: &Options,
) -> Result<Established<L>, ConnectError> {
    let options = options.clone().in_range();
    let params = options.params(contracts);
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
        Ok(Connected { terms, secrets, server_key, ticket, resumed, early, .. }) => {
            let secured = secrets.is_some();
            let mut outbound = establish(&mut inbound, &terms, secrets);
            if secured && !resumed {
                // The server waits for this. A ticket, which can be used once, has proven as much.
                put(&mut outbound, Cover::Sealed, Head::plain(FrameKind::Control), &Control::Ready);
            }
            let mut established = settle(link, (inbound, outbound), terms, server_key, None, &options);
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
