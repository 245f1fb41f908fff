//! From a link to an established connection.

mod accept;
mod connect;
mod error;
mod io;

use std::fmt;

use tokio::time::Instant;

use self::error::farewell;
pub use self::{
    accept::{accept, accept_unless, refuse},
    connect::{connect, connect_attached, connect_early},
    error::ConnectError,
};
use super::Options;
use crate::{
    error::ProtocolError,
    handshake::{Attach, Kept, PublicKey, Secrets, SessionTicket, Terms},
    link::{BoxLink, Link},
    peer::{Audience, Number, Resumption, Setup},
    record::RecordKind,
    registry,
    session::{Inbound, Outbound},
};

/// A link whose handshake is done, for a [`Driver`](super::Driver) to take over.
pub struct Established<L> {
    pub(super) link: L,
    pub(super) inbound: Inbound,
    pub(super) outbound: Outbound,
    pub(super) setup: Setup,
    /// The session that the peer opens here, or wants to go on with, on a connection that outlives its links.
    pub(super) lasting: Option<Lasting>,
    ticket: Option<SessionTicket>,
    resumed: bool,
    early_sent: bool,
}

/// What is known of a session that outlives its links when a link is there.
#[derive(Debug)]
pub(super) enum Lasting {
    /// It is new.
    New(Kept),
    /// The peer asks for another, in whose place this one is opened if it does not go on.
    Asked(Kept, Attach),
    /// The peer goes on with the one that was asked for, of which it has handled this many bytes.
    Resumed(u64),
}

impl Lasting {
    fn of(kept: Kept, asked: Option<Attach>) -> Self {
        match asked {
            Some(attach) => Lasting::Asked(kept, attach),
            None => Lasting::New(kept),
        }
    }
}

impl<L> Established<L> {
    /// Gives what the peer pushes to an audience that was there before the connection, and outlives it unless it `ends` with it.
    /// To be called before a driver takes over.
    pub fn set_audience(&mut self, audience: &Audience, ends: bool) {
        self.setup.audience = Some((audience.clone(), ends));
    }

    /// Whether it goes on with an earlier session.
    pub fn is_resumed(&self) -> bool {
        self.resumed
    }

    /// With what the side that connected can resume the session later, if the other side keeps it.
    pub fn ticket(&self) -> Option<&SessionTicket> {
        self.ticket.as_ref()
    }

    /// The session that the peer asks to go on with. Whoever accepts looks it up and gives this to its
    /// [`Anchor`](super::Anchor); if there is none, a new one is opened by [`Driver::new`](super::Driver::new).
    pub fn attach(&self) -> Option<&Attach> {
        match &self.lasting {
            Some(Lasting::Asked(_, attach)) => Some(attach),
            _ => None,
        }
    }

    /// Whether the peer goes on with the session that [`connect_attached`] has asked for. It is to be given to its
    /// [`Anchor`](super::Anchor) then.
    pub fn is_attached(&self) -> bool {
        matches!(self.lasting, Some(Lasting::Resumed(_)))
    }

    /// The key that the peer has proven to have.
    pub fn peer_key(&self) -> Option<PublicKey> {
        self.setup.peer_key
    }

    /// Whether the frames given to [`connect_early`] went with the hello.
    pub fn early_sent(&self) -> bool {
        self.early_sent
    }
}

impl<L: Link + Unpin> Established<L> {
    /// The same, over a link whose kind is not known.
    pub fn boxed(self) -> Established<BoxLink> {
        let Self { link, inbound, outbound, setup, lasting, ticket, resumed, early_sent } = self;
        Established { link: Box::new(link), inbound, outbound, setup, lasting, ticket, resumed, early_sent }
    }
}

impl<L> fmt::Debug for Established<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Established").field("setup", &self.setup).finish_non_exhaustive()
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
    link.set_max_unsent(options.max_unsent);
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
        audience: None,
    };
    Established { link, inbound, outbound, setup, lasting: None, ticket: None, resumed, early_sent: false }
}

fn unexpected(kind: RecordKind) -> ConnectError {
    ConnectError::Protocol(ProtocolError::UnexpectedRecord { found: kind.name() })
}
