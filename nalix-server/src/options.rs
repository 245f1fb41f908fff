//! What can be set about a server besides its parts.

use std::time::Duration;

use nalix_core::{connection::Options, link::tcp::ListenOptions};

/// Limits and times of a server, all in one: what a configuration file says. See
/// [`ServerBuilder::configure`](crate::ServerBuilder::configure).
///
/// With the feature `serde` it can be deserialised, and changed by environment variables.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerOptions {
    /// See [`ServerBuilder::max_connections`](crate::ServerBuilder::max_connections). Default 65,536.
    pub max_connections: usize,
    /// See [`ServerBuilder::max_handshakes`](crate::ServerBuilder::max_handshakes). Default 4,096.
    pub max_handshakes: usize,
    /// See [`ServerBuilder::max_handshakes_per_address`](crate::ServerBuilder::max_handshakes_per_address). Default 256.
    pub max_handshakes_per_address: usize,
    /// See [`ServerBuilder::max_detached`](crate::ServerBuilder::max_detached). Default 10,000.
    pub max_detached: usize,
    /// See [`ServerBuilder::max_reassembly`](crate::ServerBuilder::max_reassembly). Default 512 MiB.
    pub max_reassembly: usize,
    /// See [`ServerBuilder::max_unread`](crate::ServerBuilder::max_unread). Default 256 MiB.
    pub max_unread: usize,
    /// See [`ServerBuilder::max_groups_per_connection`](crate::ServerBuilder::max_groups_per_connection). Default 1,024.
    pub max_groups_per_connection: usize,
    /// See [`ServerBuilder::drain_timeout`](crate::ServerBuilder::drain_timeout). Default 10 s.
    pub drain_timeout: Duration,
    /// Of each connection.
    pub connection: Options,
    /// Of listening sockets.
    pub listen: ListenOptions,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            max_connections: 65_536,
            max_handshakes: 4_096,
            max_handshakes_per_address: 256,
            max_detached: 10_000,
            max_reassembly: 512 << 20,
            max_unread: 256 << 20,
            max_groups_per_connection: 1_024,
            drain_timeout: Duration::from_secs(10),
            connection: Options::default(),
            listen: ListenOptions::default(),
        }
    }
}

#[cfg(feature = "serde")]
nalix_core::__section!(ServerOptions {
    max_connections: |raw| nalix_core::config::size(raw, 0, usize::MAX),
    max_handshakes: |raw| nalix_core::config::size(raw, 1, usize::MAX),
    max_handshakes_per_address: |raw| nalix_core::config::size(raw, 1, usize::MAX),
    max_detached: |raw| nalix_core::config::size(raw, 0, usize::MAX),
    max_reassembly: |raw| nalix_core::config::size(raw, 0, usize::MAX),
    max_unread: |raw| nalix_core::config::size(raw, 0, usize::MAX),
    max_groups_per_connection: |raw| nalix_core::config::size(raw, 0, usize::MAX),
    drain_timeout: |raw| nalix_core::config::time(raw, Duration::ZERO),
} nested {
    connection,
    listen,
});
