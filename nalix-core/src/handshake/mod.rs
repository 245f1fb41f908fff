//! The exchange of hellos that opens every connection: version, limits, contract fingerprints; and what
//! proves who the peers are.
//!
//! Slices in, values out; `connection` does the reading and writing. See `docs/protocol.md`, "Handshake".

mod contracts;
mod hello;
mod identity;
mod public_key;
mod random;
mod saved;
mod session_data;
mod session_record;
mod store;
mod text;
mod ticket;

pub use self::{
    contracts::{Contracts, Mismatch},
    hello::{Hello, HelloReply, Params, Sealing, Terms, abort_body, accept, finish, read_abort},
    identity::{Identity, IdentityError, IdentityFault},
    public_key::PublicKey,
    random::NoRandomness,
    session_data::SessionData,
    session_record::SessionRecord,
    store::{SessionStore, StoreError, StoreFuture},
    text::{ParseKeyError, UnusableKey},
    ticket::{ParseSessionIdError, SessionId, SessionTicket, TicketId},
};

/// The version of the protocol that this crate speaks.
pub const VERSION: u8 = 1;

/// The longest Hello that is read, in bytes: room for some 6,000 packets.
pub const MAX_HELLO: usize = 64 * 1024;

/// The longest HelloReply that is read, in bytes: room besides for the description of packets that differ.
pub const MAX_HELLO_REPLY: usize = 256 * 1024;
