//! What a user says about security, on either side.

use std::{fmt, sync::Arc, time::Duration};

use super::{Identity, PublicKey, Sealing, SessionStore, SessionTicket, Unsaved};
use crate::record::Suites;

/// How the side that connects secures a connection.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ClientSecurity {
    /// Not at all: anyone on the way can read and change what the connection carries.
    Plaintext,
    /// Encrypted, to a server that proves its key.
    Secured(Pinned),
}

/// The server's key, and what the client shows of itself.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Pinned {
    /// The key that the server must have.
    pub server_key: PublicKey,
    /// The client's own key pair, which it proves to the server. Default `None`: the server does not learn who connects.
    pub identity: Option<Identity>,
    /// What is sealed. Default [`Sealing::All`].
    pub sealing: Sealing,
    /// With which ciphers records may be sealed. Default [`Suites::here`]; the server chooses.
    pub suites: Suites,
    /// What an earlier connection left for resuming its session. Default `None`: a new session.
    pub ticket: Option<SessionTicket>,
}

impl Pinned {
    /// An anonymous client that connects to the server with this key.
    pub fn new(server_key: PublicKey) -> Self {
        Self { server_key, identity: None, sealing: Sealing::All, suites: Suites::here(), ticket: None }
    }
}

/// How the side that accepts secures its connections.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ServerSecurity {
    /// Not at all: anyone on the way can read and change what they carry.
    Plaintext,
    /// Encrypted. Shared by all connections.
    Secured(Arc<Secured>),
}

/// The server's key pair, whom it lets in, and what it keeps for sessions to be resumed.
#[derive(Clone)]
#[non_exhaustive]
pub struct Secured {
    /// The key pair that the server proves to have.
    pub identity: Identity,
    /// Which clients are let in. Default [`ClientKeys::Optional`].
    pub client_keys: ClientKeys,
    /// What is sealed. Default [`Sealing::All`].
    pub sealing: Sealing,
    /// With which ciphers records may be sealed. Default [`Suites::here`]. Of those that the client has too, the fastest is
    /// taken.
    pub suites: Suites,
    /// Where sessions are kept. Default `None`: they cannot be resumed.
    pub store: Option<Arc<dyn SessionStore>>,
    /// How long a ticket is good for after it was handed out. Default 1 h, at most ten years. Less than a
    /// second hands out none.
    ///
    /// Too short makes clients that come back late start anew; too long keeps secrets and memory for those who do not
    /// come back.
    pub ticket_lifetime: Duration,
    /// Sessions that are not in the store as they are.
    pub(crate) unsaved: Arc<Unsaved>,
}

impl Secured {
    /// With this key pair, for clients with or without a key, without resumption.
    pub fn new(identity: Identity) -> Self {
        Self {
            identity,
            client_keys: ClientKeys::Optional,
            sealing: Sealing::All,
            suites: Suites::here(),
            store: None,
            ticket_lifetime: Duration::from_secs(60 * 60),
            unsaved: Arc::default(),
        }
    }

    /// How long a ticket is good for at the most.
    pub fn longest_lifetime(&self) -> Duration {
        self.ticket_lifetime.min(MAX_LIFETIME)
    }

    /// Waits until the store has everything that was put into sessions by now, which takes as long as the store does not work:
    /// bound it with a timeout. Those that wait after a failure try again at once. Cancel safe.
    pub async fn saved(&self) {
        self.unsaved.settled().await;
    }

    /// Whether sessions can be resumed.
    pub(crate) fn issues_tickets(&self) -> Option<&Arc<dyn SessionStore>> {
        // Less than a second would be zero on the wire.
        self.store.as_ref().filter(|_| self.ticket_lifetime >= Duration::from_secs(1))
    }
}

/// Longer than any session, and short enough for every clock.
const MAX_LIFETIME: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

impl fmt::Debug for Secured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secured")
            .field("identity", &self.identity)
            .field("client_keys", &self.client_keys)
            .field("sealing", &self.sealing)
            .field("resumption", &self.store.is_some())
            .field("ticket_lifetime", &self.ticket_lifetime)
            .finish()
    }
}

/// Which clients a server lets in, by the keys they prove to have.
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum ClientKeys {
    /// All, with or without a key.
    #[default]
    Optional,
    /// Those that have a key, whichever it is.
    Required,
    /// Those whose key the function accepts. It runs in the handshake: it should look something up, not wait.
    Accepted(Arc<dyn Fn(&PublicKey) -> bool + Send + Sync>),
}

impl ClientKeys {
    /// Those whose key `accept` accepts.
    pub fn accepted(accept: impl Fn(&PublicKey) -> bool + Send + Sync + 'static) -> Self {
        ClientKeys::Accepted(Arc::new(accept))
    }

    /// Whether a client that has proven `key` is let in.
    pub fn admits(&self, key: Option<&PublicKey>) -> bool {
        match (self, key) {
            (ClientKeys::Optional, _) | (ClientKeys::Required, Some(_)) => true,
            (ClientKeys::Accepted(accept), Some(key)) => accept(key),
            (_, None) => false,
        }
    }
}

impl fmt::Debug for ClientKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ClientKeys::Optional => "Optional",
            ClientKeys::Required => "Required",
            ClientKeys::Accepted(_) => "Accepted(..)",
        })
    }
}
