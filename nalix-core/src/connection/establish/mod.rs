//! From a link to an established connection.

mod accept;
mod connect;
mod error;
mod io;

use std::{fmt, sync::Arc};

use tokio::time::Instant;

use self::error::farewell;
pub use self::{
    accept::{accept, accept_unless, refuse},
    connect::{connect, connect_early},
    error::ConnectError,
};
use super::Options;
use crate::{
    error::ProtocolError,
    handshake::{PublicKey, Secrets, SessionTicket, Terms},
    link::Link,
    peer::{Audience, Number, Resumption, Setup, Shared},
    record::RecordKind,
    registry,
    session::{Inbound, Outbound},
};

/// A link whose handshake is done, for a [`Driver`](super::Driver) to take over.
pub struct Established<L> {
    pub(super) link: L,
    pub(super) inbound: Inbound,
    pub(super) shared: Arc<Shared>,
    ticket: Option<SessionTicket>,
    resumed: bool,
    early_sent: bool,
}

impl<L> Established<L> {
    /// Gives what the peer pushes to an audience that was there before the connection, and outlives it unless it `ends` with it.
    /// To be called before a driver takes over.
    pub fn set_audience(&mut self, audience: &Audience, ends: bool) {
        // Nobody else has a hold of it before there is a driver.
        if let Some(shared) = Arc::get_mut(&mut self.shared) {
            shared.set_audience(audience, ends);
        }
    }

    /// Whether it goes on with an earlier session.
    pub fn is_resumed(&self) -> bool {
        self.resumed
    }

    /// With what the side that connected can resume the session later, if the other side keeps it.
    pub fn ticket(&self) -> Option<&SessionTicket> {
        self.ticket.as_ref()
    }

    /// Whether the frames given to [`connect_early`] went with the hello.
    pub fn early_sent(&self) -> bool {
        self.early_sent
    }
}

impl<L> fmt::Debug for Established<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Established").field("shared", &self.shared).finish_non_exhaustive()
    }
}

/// Sets both directions up for what has been agreed on.
fn establish(inbound: &mut Inbound, terms: &Terms, secrets: Option<Secrets>) -> Outbound {
    inbound.set_inflation(terms.compression_in);
    let mut outbound = match secrets {
        None => {
            inbound.establish(terms.message_in);
            Outbound::new(terms.message_out)
        }
        Some(Secrets { sealer, opener, .. }) => {
            inbound.establish_secured(terms.message_in, opener, terms.sealing);
            Outbound::secured(terms.message_out, sealer, terms.sealing)
        }
    };
    outbound.set_compression(terms.compression_out);
    outbound
}

/// Puts a connection together whose handshake is done.
pub(super) fn settle<L: Link>(
    link: L,
    (mut inbound, mut outbound): (Inbound, Outbound),
    terms: Terms,
    peer_key: Option<PublicKey>,
    resumption: Option<Resumption>,
    options: &Options,
) -> Established<L> {
    inbound.set_reassembly(options.reassembly);
    outbound.set_large_room(options.large_outbox);
    if registry::has_priorities() {
        outbound.set_ranked();
    }
    let resumed = resumption.as_ref().is_some_and(Resumption::is_resumed);
    let setup = Setup {
        number: Number::take(),
        since: Instant::now(),
        peer_addr: link.peer_addr(),
        local_addr: link.local_addr(),
        transport: link.transport(),
        direct: link.direct(),
        terms,
        peer_key,
        resumption,
        outbox: options.outbox,
        drop_mark: options.drop_mark,
        max_latest: options.max_latest,
        request_timeout: options.request_timeout,
        push_queue: options.push_queue,
        streams: options.streams(),
    };
    let shared = Arc::new(Shared::new(setup, outbound));
    Established { link, inbound, shared, ticket: None, resumed, early_sent: false }
}

fn unexpected(kind: RecordKind) -> ConnectError {
    ConnectError::Protocol(ProtocolError::UnexpectedRecord { found: kind.name() })
}
