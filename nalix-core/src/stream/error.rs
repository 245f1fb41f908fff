//! How sending into a channel fails.

use std::fmt;

use thiserror::Error;

/// The stream of a [`channel`](super::channel()) has been dropped: nobody will read what is sent. The item comes back.
#[derive(Clone, Copy, PartialEq, Eq, Error)]
#[error("the stream has been dropped")]
pub struct Closed<T>(pub T);

impl<T> fmt::Debug for Closed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Closed").finish_non_exhaustive()
    }
}

/// How sending into a [`channel`](super::channel()) without waiting fails. The item comes back.
#[derive(Clone, Copy, PartialEq, Eq, Error)]
pub enum TrySendError<T> {
    /// There is no room now.
    #[error("the stream has no room")]
    Full(T),
    /// The stream has been dropped: nobody will read what is sent.
    #[error("the stream has been dropped")]
    Closed(T),
}

impl<T> TrySendError<T> {
    /// The item that was not sent.
    pub fn into_inner(self) -> T {
        match self {
            TrySendError::Full(item) | TrySendError::Closed(item) => item,
        }
    }

    /// Whether sending it again later may succeed.
    pub fn is_retryable(&self) -> bool {
        matches!(self, TrySendError::Full(_))
    }
}

impl<T> fmt::Debug for TrySendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TrySendError::Full(_) => "Full(..)",
            TrySendError::Closed(_) => "Closed(..)",
        })
    }
}
