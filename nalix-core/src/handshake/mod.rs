//! The exchange of hellos that opens every connection: keys, version, limits, contract fingerprints; and what proves who
//! the peers are.
//!
//! Slices in, values out; `connection` does the reading and writing. See `docs/protocol.md`, "Handshake".

mod contracts;
#[cfg(test)]
mod golden;
mod hello;
mod identity;
mod initiator;
mod lasting;
mod noise;
mod params;
mod public_key;
mod random;
mod resolver;
mod responder;
mod saved;
mod security;
mod session_data;
mod session_record;
mod store;
mod text;
mod ticket;
mod upkeep;

pub(crate) use self::upkeep::{Unsaved, Upkeep};
pub use self::{
    contracts::{Contracts, Mismatch},
    hello::{Hello, Way, abort_body, read_abort},
    identity::{Identity, IdentityError, IdentityFault},
    initiator::{AnswerError, Connected, HelloError, Initiator, Secrets},
    lasting::{Attach, Kept, Lasting},
    params::{Answer, Grant, Offer, Params, Sealing, Terms},
    public_key::PublicKey,
    random::NoRandomness,
    responder::{Accepted, Responder},
    security::{ClientKeys, ClientSecurity, Pinned, Secured, ServerSecurity},
    session_data::SessionData,
    session_record::SessionRecord,
    store::{SessionStore, StoreError, StoreFuture, Taken},
    text::{ParseKeyError, UnusableKey},
    ticket::{ParseSessionIdError, SessionId, SessionTicket, TicketId},
};

/// The version of the protocol that this crate speaks.
pub const VERSION: u8 = 1;

/// The longest body of a Hello or HelloReply that is read, in bytes: room for some 6,000 packets, or for the description
/// of packets that differ. A Noise message cannot be longer.
pub const MAX_HELLO: usize = 64 * 1024;
