//! Why a server refuses to start.

use std::io;

use nalix_core::{controller::RouterError, error::DuplicateError, handshake::IdentityError};
use thiserror::Error;

/// Why a server cannot be built. Nothing is left bound.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Nobody has said whether connections are encrypted.
    #[error("say how connections are secured: call `.identity(...)` or `.plaintext()` on the builder")]
    Security,
    /// Two things have been said that exclude each other.
    #[error("`{one}` and {other} exclude each other")]
    Contradiction {
        /// One of them.
        one: &'static str,
        /// The other.
        other: &'static str,
    },
    /// The identity file that the options name cannot be used.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// A limit of zero would let nobody in.
    #[error("`{option}` is zero, which lets nobody in")]
    Zero {
        /// The option.
        option: &'static str,
    },
    /// There is nothing to accept connections from.
    #[error("no listener: call `.tcp(address)`, or `.no_listener()` if links are handed in by hand")]
    NoListener,
    /// The address is not one, or its host is not known.
    #[error("cannot resolve {address:?}: {source}")]
    Address {
        /// What was given.
        address: String,
        /// What the system says.
        source: io::Error,
    },
    /// The address cannot be listened on; somebody else has it, perhaps.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// What was given.
        address: String,
        /// What the system says.
        source: io::Error,
    },
    /// The handlers do not make a table.
    #[error(transparent)]
    Router(#[from] RouterError),
    /// Two packets claim one opcode or one name.
    #[error(transparent)]
    Registry(#[from] DuplicateError),
    /// A runtime of its own could not be made for a core.
    #[error("cannot start a runtime: {0}")]
    Runtime(io::Error),
}

impl BuildError {
    /// Whether trying again later may succeed with nothing else changed.
    pub fn is_retryable(&self) -> bool {
        match self {
            BuildError::Listen { source, .. } => source.kind() == io::ErrorKind::AddrInUse,
            _ => false,
        }
    }
}
