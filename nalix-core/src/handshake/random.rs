//! Random bytes from the operating system.

use thiserror::Error;

/// The operating system gave no random bytes. Nothing secret can be made then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the operating system gave no random bytes: {0}")]
pub struct NoRandomness(getrandom::Error);

pub(super) fn fill(bytes: &mut [u8]) -> Result<(), NoRandomness> {
    getrandom::fill(bytes).map_err(NoRandomness)
}
