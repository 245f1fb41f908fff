//! What a client keeps to take up its session again, and the names in it.

use std::{
    fmt,
    hash::{Hash, Hasher},
    str::FromStr,
    time::SystemTime,
};

use subtle::ConstantTimeEq;
use thiserror::Error;
use zeroize::Zeroizing;

use super::{
    PublicKey,
    random::{self, NoRandomness},
    saved::{self, Saved},
};
use crate::{
    error::DecodeError,
    record::Key,
    wire::{Decode, Encode, Reader, Writer},
};

/// Names a session over all its connections and tickets: what it is revoked by. 128 random bits, and no
/// secret: whoever knows it can do nothing with it.
///
/// Its text is 32 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionId([u8; SessionId::LEN]);

impl SessionId {
    /// Its length in bytes.
    pub const LEN: usize = 16;

    /// A name for a new session.
    ///
    /// # Errors
    /// [`NoRandomness`] if the operating system has none to give.
    pub fn generate() -> Result<Self, NoRandomness> {
        let mut bytes = [0; SessionId::LEN];
        random::fill(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// The id of these bytes.
    pub const fn from_bytes(bytes: [u8; SessionId::LEN]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    pub const fn as_bytes(&self) -> &[u8; SessionId::LEN] {
        &self.0
    }
}

/// In one write, so that a table's hasher sees the random bytes and nothing else.
impl Hash for SessionId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(&self.0);
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Takes upper-case digits too, and ignores white space around them.
impl FromStr for SessionId {
    type Err = ParseSessionIdError;

    fn from_str(text: &str) -> Result<Self, ParseSessionIdError> {
        let text = text.trim();
        // `from_str_radix` would take a sign.
        if text.len() != 2 * SessionId::LEN || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(ParseSessionIdError);
        }
        u128::from_str_radix(text, 16).map(|n| Self(n.to_be_bytes())).map_err(|_| ParseSessionIdError)
    }
}

/// A text that is not a [`SessionId`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a session id has 32 hexadecimal digits")]
#[non_exhaustive]
pub struct ParseSessionIdError;

/// Names a ticket. 128 random bits, with no order and nothing in common between one and the next, so that
/// nobody who sees tickets can tell whose they are.
///
/// It is compared in constant time and not printed. It resumes nothing without the secret that belongs to it.
#[derive(Clone, Copy)]
pub struct TicketId([u8; TicketId::LEN]);

impl TicketId {
    /// Its length in bytes.
    pub const LEN: usize = 16;

    /// A name for a new ticket.
    ///
    /// # Errors
    /// [`NoRandomness`] if the operating system has none to give.
    pub fn generate() -> Result<Self, NoRandomness> {
        let mut bytes = [0; TicketId::LEN];
        random::fill(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// The id of these bytes.
    pub const fn from_bytes(bytes: [u8; TicketId::LEN]) -> Self {
        Self(bytes)
    }

    /// Its bytes. Keep them out of logs.
    pub const fn as_bytes(&self) -> &[u8; TicketId::LEN] {
        &self.0
    }
}

impl PartialEq for TicketId {
    fn eq(&self, other: &Self) -> bool {
        // Not byte by byte, which takes several times as long: tables compare at every look-up.
        let halves = |id: &Self| {
            let whole = u128::from_ne_bytes(id.0);
            [whole as u64, (whole >> 64) as u64]
        };
        halves(self).ct_eq(&halves(other)).into()
    }
}

impl Eq for TicketId {}

/// In one write, so that a table's hasher sees the random bytes and nothing else.
impl Hash for TicketId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(&self.0);
    }
}

impl fmt::Debug for TicketId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TicketId(..)")
    }
}

/// What a client keeps to take up its session again, in place of a whole handshake.
///
/// Good for one use: what the server answers with holds the next one. A game may keep it over a restart as
/// [`SessionTicket::to_bytes`], in a place where it would keep a password: whoever has it is the session's
/// client.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionTicket {
    /// What the server knows it by.
    pub id: TicketId,
    /// What both sides have derived from the handshake before.
    pub secret: Key,
    /// The server that it is for, and that has proved to be it. To be used with a client that expects the
    /// same key only.
    pub server_key: PublicKey,
    /// When the server forgets it, by the client's clock. No promise: a server may forget earlier.
    pub expires: SystemTime,
    /// The longest message that both sides had agreed on, in bytes.
    pub max_message: u32,
    /// How many calls the server had agreed to keep in flight.
    pub max_calls: u32,
}

impl SessionTicket {
    /// Puts a ticket together.
    pub const fn new(
        id: TicketId,
        secret: Key,
        server_key: PublicKey,
        expires: SystemTime,
        max_message: u32,
        max_calls: u32,
    ) -> Self {
        Self { id, secret, server_key, expires, max_message, max_calls }
    }

    /// Whether it is of no use any more.
    pub fn is_expired(&self, now: SystemTime) -> bool {
        now >= self.expires
    }

    /// The ticket as bytes, **with its secret**, in a format that later versions will read. Wiped when they
    /// are dropped.
    pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        saved::to_bytes(self)
    }

    /// Reads what [`SessionTicket::to_bytes`] has given.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not a ticket, or one of a version that is not known here.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        saved::from_bytes(bytes)
    }
}

impl Saved for SessionTicket {
    const VERSION_FIELD: &'static str = "SessionTicket.version";

    fn len(&self) -> usize {
        TicketId::LEN + Key::LEN + PublicKey::LEN + saved::TIME_LEN + 4 + 4
    }

    fn write(&self, w: &mut Writer<'_>) {
        w.put(&self.id.0);
        w.put(self.secret.as_bytes());
        w.put(self.server_key.as_bytes());
        saved::put_time(w, self.expires);
        self.max_message.encode(w);
        self.max_calls.encode(w);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            id: TicketId(r.array()?),
            secret: Key::new(r.array()?),
            server_key: saved::public_key(r)?,
            expires: Decode::decode(r)?,
            max_message: Decode::decode(r)?,
            max_calls: Decode::decode(r)?,
        })
    }
}
