//! What can be set about a server besides its parts.

use std::{num::NonZeroUsize, path::PathBuf, time::Duration};

use nalix_core::{connection::Options, handshake::Sealing, link::tcp::ListenOptions, wire::Limits};

use crate::{GuardOptions, WhenFull};

/// What a configuration file says about a server: limits, times, where it listens and how it is secured. See
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
    /// See [`ServerBuilder::when_full`](crate::ServerBuilder::when_full). Default [`WhenFull::Refuse`].
    pub when_full: WhenFull,
    /// See [`ServerBuilder::cores`](crate::ServerBuilder::cores). Default [`Cores::Ambient`].
    pub cores: Cores,
    /// Addresses to listen on, each a `host:port`, in place of those of
    /// [`ServerBuilder::tcp`](crate::ServerBuilder::tcp). Default none, which leaves those as they are.
    pub tcp: Vec<String>,
    /// Whether connections are encrypted, and how.
    pub security: SecurityOptions,
    /// Of each connection.
    pub connection: Options,
    /// See [`ServerBuilder::limits`](crate::ServerBuilder::limits).
    pub limits: Limits,
    /// See [`ServerBuilder::guard`](crate::ServerBuilder::guard).
    pub guard: GuardOptions,
    /// Of listening sockets.
    pub listen: ListenOptions,
}

/// Whether connections are encrypted, and how: the group `security` of [`ServerOptions`].
///
/// What is not mentioned stays as [`ServerBuilder`](crate::ServerBuilder) has been told. Either
/// [`identity_file`](Self::identity_file) or [`plaintext`](Self::plaintext) must be said, here or there, and not both.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct SecurityOptions {
    /// The file of the key pair that the server proves to have; see
    /// [`ServerBuilder::identity`](crate::ServerBuilder::identity). If there is no such file, a fresh identity is saved there, as
    /// [`Identity::load_or_generate`](crate::Identity::load_or_generate) does. The public key is traced either way.
    pub identity_file: Option<PathBuf>,
    /// Connections are not encrypted; see [`ServerBuilder::plaintext`](crate::ServerBuilder::plaintext).
    pub plaintext: bool,
    /// See [`ServerBuilder::sealing`](crate::ServerBuilder::sealing).
    pub sealing: Option<Sealing>,
    /// See [`ServerBuilder::ticket_lifetime`](crate::ServerBuilder::ticket_lifetime).
    pub ticket_lifetime: Option<Duration>,
}

/// How many runtimes serve connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Cores {
    /// The runtime that runs the server serves its connections too. The default.
    #[default]
    Ambient,
    /// This many threads with a runtime of one thread each, which share the port. A connection never leaves its
    /// thread, so its handlers should compute little. Ports are shared on Linux and BSDs only.
    Each(NonZeroUsize),
    /// As [`Cores::Each`], as many as the machine has.
    All,
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
            when_full: WhenFull::default(),
            cores: Cores::default(),
            tcp: Vec::new(),
            security: SecurityOptions::default(),
            connection: Options::default(),
            limits: Limits::default(),
            guard: GuardOptions::default(),
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
    when_full: |raw| nalix_core::config::word(
        raw,
        &[("refuse", WhenFull::Refuse), ("evict_anonymous", WhenFull::EvictAnonymous)],
    ),
    cores: |raw| cores_of(raw),
    tcp: |raw| nalix_core::config::list(raw),
} nested {
    security,
    connection,
    limits,
    listen,
    guard,
});

#[cfg(feature = "serde")]
nalix_core::__section!(SecurityOptions {
    identity_file: |raw| nalix_core::config::text(raw).map(|path| Some(path.into())),
    plaintext: |raw| nalix_core::config::flag(raw),
    sealing: |raw| nalix_core::config::word(
        raw,
        &[("all", Some(Sealing::All)), ("marked", Some(Sealing::Marked))],
    ),
    ticket_lifetime: |raw| nalix_core::config::time(raw, Duration::ZERO).map(Some),
});

/// A number of cores, or one of the words for them.
#[cfg(feature = "serde")]
fn cores_of(raw: &nalix_core::config::Raw) -> Result<Cores, String> {
    let words = [("ambient", Cores::Ambient), ("all", Cores::All)];
    let word = nalix_core::config::word(raw, &words);
    word.or_else(|why| match nalix_core::config::number(raw, 1, MAX_CORES) {
        Ok(n) => Ok(Cores::Each(NonZeroUsize::new(n as usize).unwrap_or(NonZeroUsize::MIN))),
        Err(number) => Err(format!("{why}, or a number; {number}")),
    })
}

/// More threads than any machine has use for are a mistake in a file.
#[cfg(feature = "serde")]
const MAX_CORES: u64 = 65_536;
