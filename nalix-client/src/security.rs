//! What a builder has been told about security.

use std::time::SystemTime;

use nalix_core::{
    connection::ConnectError,
    handshake::{ClientSecurity, Identity, Pinned, PublicKey, Sealing, SessionTicket},
};

/// What has been said; unsaid things have their defaults.
#[derive(Debug, Clone, Default)]
pub(crate) struct Security {
    pub(crate) plaintext: bool,
    pub(crate) server_key: Option<PublicKey>,
    pub(crate) identity: Option<Identity>,
    pub(crate) sealing: Option<Sealing>,
    pub(crate) ticket: Option<SessionTicket>,
}

impl Security {
    /// What it comes to. A ticket that has expired by `now` is left out.
    ///
    /// # Errors
    /// [`ConnectError::Configuration`] if nothing has been said, or things that contradict each other.
    pub(crate) fn resolve(self, now: SystemTime) -> Result<ClientSecurity, ConnectError> {
        let contradiction = |what: &str| Err(ConnectError::Configuration(what.to_owned()));
        // A ticket knows whose it is.
        let server_key = self.server_key.or_else(|| self.ticket.as_ref().map(|ticket| ticket.server_key));
        let Some(server_key) = server_key else {
            if !self.plaintext {
                return contradiction(
                    "say how the connection is secured: call `.server_key(...)` or `.plaintext()` on the builder",
                );
            }
            if self.identity.is_some() {
                return contradiction("`.plaintext()` and `.identity(...)` exclude each other");
            }
            if self.sealing.is_some() {
                return contradiction("`.plaintext()` and `.sealing(...)` exclude each other");
            }
            return Ok(ClientSecurity::Plaintext);
        };
        if self.plaintext {
            return contradiction("`.plaintext()` excludes `.server_key(...)` and `.resume(...)`");
        }
        if self.sealing == Some(Sealing::None) {
            return contradiction("`Sealing::None` and `.server_key(...)` exclude each other");
        }
        if self.ticket.as_ref().is_some_and(|ticket| ticket.server_key != server_key) {
            return contradiction(
                "the ticket was handed out by a server with another key than the one that is pinned",
            );
        }
        let mut pinned = Pinned::new(server_key);
        pinned.identity = self.identity;
        pinned.sealing = self.sealing.unwrap_or(pinned.sealing);
        pinned.ticket = self.ticket.filter(|ticket| !ticket.is_expired(now));
        Ok(ClientSecurity::Secured(pinned))
    }
}
