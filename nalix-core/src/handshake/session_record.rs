//! A session as a store keeps it.

use std::time::SystemTime;

use zeroize::Zeroizing;

use super::{
    PublicKey, SessionData, SessionId,
    saved::{self, Saved},
};
use crate::{
    error::DecodeError,
    record::Key,
    wire::{Decode, Reader, Writer},
};

/// All that a server needs to let a client take up its session: what a ticket stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionRecord {
    /// The session.
    pub session: SessionId,
    /// What both sides have derived from the handshake before; a client must prove that it knows it.
    pub secret: Key,
    /// The client's key, if it has proved one.
    pub peer_key: Option<PublicKey>,
    /// What the server remembers of the session.
    pub data: SessionData,
    /// From when on the ticket is as good as absent, by the clock of the server that made it. An upper bound: stores count by
    /// clocks that are not set.
    pub expires: SystemTime,
}

impl SessionRecord {
    /// A session without data, of a client that has proved no key.
    pub fn new(session: SessionId, secret: Key, expires: SystemTime) -> Self {
        Self { session, secret, peer_key: None, data: SessionData::new(), expires }
    }

    /// Whether it is as good as absent.
    pub fn is_expired(&self, now: SystemTime) -> bool {
        now >= self.expires
    }

    /// The record as bytes, **with its secret**, for stores outside the process, in a format that later
    /// versions will read. Wiped when they are dropped.
    pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        saved::to_bytes(self)
    }

    /// Reads what [`SessionRecord::to_bytes`] has given.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not a record, or one of a version that is not known here.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        saved::from_bytes(bytes)
    }
}

impl Saved for SessionRecord {
    const VERSION_FIELD: &'static str = "SessionRecord.version";

    fn len(&self) -> usize {
        let peer_key = 1 + self.peer_key.map_or(0, |_| PublicKey::LEN);
        SessionId::LEN + Key::LEN + peer_key + saved::TIME_LEN + self.data.encoded_len()
    }

    fn write(&self, w: &mut Writer<'_>) {
        w.put(self.session.as_bytes());
        w.put(self.secret.as_bytes());
        w.put_u8(u8::from(self.peer_key.is_some()));
        if let Some(key) = &self.peer_key {
            w.put(key.as_bytes());
        }
        saved::put_time(w, self.expires);
        self.data.write(w);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            session: SessionId::from_bytes(r.array()?),
            secret: Key::new(r.array()?),
            peer_key: r.flag()?.then(|| saved::public_key(r)).transpose()?,
            expires: Decode::decode(r)?,
            data: SessionData::read(r)?,
        })
    }
}
