//! What can go wrong with an identity.

use std::{
    io,
    path::{Path, PathBuf},
};

use thiserror::Error;

use crate::handshake::{random::NoRandomness, text::ParseKeyError};

/// Why an identity cannot be loaded, made or saved.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum IdentityError {
    /// The operating system has no random bytes to make a key of.
    #[error(transparent)]
    Randomness(#[from] NoRandomness),
    /// There is no such file.
    #[error("identity file {path:?} does not exist")]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// There is something under this name already, and identities are never overwritten.
    #[error("{path:?} exists already, and an identity never replaces a file; move it away first")]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// A folder, a device, or something else that is not a file.
    #[error("identity file {path:?} is not a regular file")]
    NotAFile {
        /// What was given.
        path: PathBuf,
    },
    /// The group or others have access to the file (on Unix), so the key may be known to them.
    #[error("identity file {path:?} is open to other users (mode {mode:04o}); run: chmod 600 {path:?}")]
    Permissions {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The file cannot be read.
    #[error("cannot read identity file {path:?}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The file cannot be written. Nothing of it is left behind.
    #[error("cannot write identity file {path:?}: {source}")]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The file's content is not an identity.
    #[error("identity file {path:?}: {fault}")]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        #[source]
        fault: IdentityFault,
    },
}

impl IdentityError {
    pub(super) fn missing(path: &Path) -> Self {
        IdentityError::Missing { path: path.into() }
    }

    pub(super) fn read(path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| match source.kind() {
            io::ErrorKind::NotFound => IdentityError::missing(path),
            _ => IdentityError::Read { path: path.into(), source },
        }
    }

    pub(super) fn write(path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| IdentityError::Write { path: path.into(), source }
    }

    pub(super) fn content(path: &Path) -> impl Fn(IdentityFault) -> Self {
        move |fault| IdentityError::Content { path: path.into(), fault }
    }
}

/// What is wrong with a text that should be an identity. The text itself is not repeated.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum IdentityFault {
    /// There is nothing in it.
    #[error("is empty")]
    Empty,
    /// It is larger than any identity.
    #[error("is larger than {limit} bytes, so it is not an identity")]
    TooLarge {
        /// What is read at the most, in bytes.
        limit: usize,
    },
    /// It is not text.
    #[error("is not UTF-8 text")]
    NotUtf8,
    /// The first line says that it is something else.
    #[error("does not begin with the line `nalix identity v1`")]
    FirstLine,
    /// A later version has written it.
    #[error("has a format that this version does not know; it knows `nalix identity v1`")]
    Version,
    /// There is no key behind the first line.
    #[error("has no line with a private key")]
    NoKey,
    /// There is something behind the key.
    #[error("has more behind the private key than comments")]
    MoreThanOneKey,
    /// It holds a public key only.
    #[error("holds a public key, not a private one")]
    PublicKey,
    /// The key is not right.
    #[error("private key: {0}")]
    Key(#[from] ParseKeyError),
}
