//! What a builder has been told about security.

use std::{fmt, sync::Arc, time::Duration};

use nalix_core::handshake::{ClientKeys, Identity, Sealing, Secured, ServerSecurity, SessionStore};

use crate::BuildError;

/// What has been said; unsaid things have their defaults.
#[derive(Clone, Default)]
pub(crate) struct Security {
    pub(crate) plaintext: bool,
    pub(crate) identity: Option<Identity>,
    pub(crate) client_keys: Option<ClientKeys>,
    pub(crate) sealing: Option<Sealing>,
    pub(crate) store: Option<Arc<dyn SessionStore>>,
    pub(crate) ticket_lifetime: Option<Duration>,
}

impl fmt::Debug for Security {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Security")
            .field("plaintext", &self.plaintext)
            .field("identity", &self.identity)
            .field("client_keys", &self.client_keys)
            .field("sealing", &self.sealing)
            .field("sessions", &self.store.is_some())
            .field("ticket_lifetime", &self.ticket_lifetime)
            .finish()
    }
}

impl Security {
    /// What it comes to.
    ///
    /// # Errors
    /// If nothing has been said, or things that contradict each other.
    pub(crate) fn resolve(self) -> Result<ServerSecurity, BuildError> {
        let Some(identity) = self.identity else {
            if !self.plaintext {
                return Err(BuildError::Security);
            }
            let needs_identity = [
                (self.client_keys.is_some(), "`.client_keys(...)`"),
                (self.sealing.is_some(), "`.sealing(...)`"),
                (self.store.is_some(), "`.sessions(...)`"),
                (self.ticket_lifetime.is_some(), "`.ticket_lifetime(...)`"),
            ];
            return match needs_identity.iter().find(|(said, _)| *said) {
                Some((_, what)) => Err(BuildError::Contradiction { one: ".plaintext()", other: what }),
                None => Ok(ServerSecurity::Plaintext),
            };
        };
        if self.plaintext {
            return Err(BuildError::Contradiction { one: ".plaintext()", other: "`.identity(...)`" });
        }
        if self.sealing == Some(Sealing::None) {
            return Err(BuildError::Contradiction { one: ".identity(...)", other: "`Sealing::None`" });
        }
        let mut secured = Secured::new(identity);
        secured.client_keys = self.client_keys.unwrap_or_default();
        secured.sealing = self.sealing.unwrap_or(secured.sealing);
        secured.store = self.store;
        secured.ticket_lifetime = self.ticket_lifetime.unwrap_or(secured.ticket_lifetime);
        Ok(ServerSecurity::Secured(Arc::new(secured)))
    }
}
