//! What can be set about a client.

use std::time::Duration;

use nalix_core::connection::Options;

use crate::reconnect_options::ReconnectOptions;

/// Limits and times of a client, all in one: what a configuration file says. See
/// [`ClientBuilder::configure`](crate::ClientBuilder::configure).
///
/// With the feature `serde` it can be deserialised, and changed by environment variables.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientOptions {
    /// See [`ClientBuilder::connect_timeout`](crate::ClientBuilder::connect_timeout). Default 10 s.
    pub connect_timeout: Duration,
    /// Of the connection.
    pub connection: Options,
    /// How the session comes back when it loses its connection.
    pub reconnect: ReconnectOptions,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            connection: Options::default(),
            reconnect: ReconnectOptions::default(),
        }
    }
}

#[cfg(feature = "serde")]
nalix_core::__section!(ClientOptions {
    connect_timeout: |raw| nalix_core::config::time(raw, Duration::ZERO),
} nested {
    connection,
    reconnect,
});
