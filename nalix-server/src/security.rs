//! What a builder has been told about security.

use std::{fmt, panic, path::PathBuf, sync::Arc, time::Duration};

use nalix_core::handshake::{ClientKeys, Identity, Sealing, Secured, ServerSecurity, SessionStore};

use tokio::task::spawn_blocking;

use crate::{BuildError, SecurityOptions};

/// What has been said; unsaid things have their defaults.
#[derive(Clone, Default)]
pub(crate) struct Security {
    pub(crate) plaintext: bool,
    pub(crate) identity: Option<Identity>,
    /// To be read before the identity is needed.
    identity_file: Option<PathBuf>,
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
            .field("identity_file", &self.identity_file)
            .field("client_keys", &self.client_keys)
            .field("sealing", &self.sealing)
            .field("sessions", &self.store.is_some())
            .field("ticket_lifetime", &self.ticket_lifetime)
            .finish()
    }
}

impl Security {
    /// Takes what options say over; what they do not mention stays.
    pub(crate) fn configure(&mut self, options: SecurityOptions) {
        let SecurityOptions { identity_file, plaintext, sealing, ticket_lifetime } = options;
        self.plaintext |= plaintext;
        self.identity_file = identity_file.or(self.identity_file.take());
        self.sealing = sealing.or(self.sealing);
        self.ticket_lifetime = ticket_lifetime.or(self.ticket_lifetime);
    }

    /// Reads the identity from its file, if it is in one. Cancel safe: the file is read or written to its end all the same.
    ///
    /// # Errors
    /// If the file cannot be used, or there is an identity besides, or none is wanted.
    pub(crate) async fn load(mut self) -> Result<Self, BuildError> {
        let Some(file) = self.identity_file.take() else { return Ok(self) };
        // Looked at first, so that no file is made for a server that does not start.
        if self.identity.is_some() {
            return Err(BuildError::Contradiction { one: "identity_file", other: "`.identity(...)`" });
        }
        if self.plaintext {
            return Err(BuildError::Contradiction { one: "plaintext", other: "`identity_file`" });
        }
        let loading = spawn_blocking(move || (Identity::load_or_generate(&file), file));
        let (identity, file) = match loading.await {
            Ok((identity, file)) => (identity?, file),
            // It is not cancelled, so it panicked.
            Err(error) => panic::resume_unwind(error.into_panic()),
        };
        tracing::info!(file = %file.display(), public_key = %identity.public_key(), "identity loaded");
        self.identity = Some(identity);
        Ok(self)
    }

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
