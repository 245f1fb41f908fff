//! Random bytes from the operating system.

use thiserror::Error;
use zeroize::Zeroizing;

use crate::frame::ResumeToken;

/// The operating system gave no random bytes. Nothing secret can be made then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the operating system gave no random bytes: {0}")]
pub struct NoRandomness(getrandom::Error);

/// A token for a session that outlives its links; `None` without randomness.
pub(crate) fn resume_token() -> Option<ResumeToken> {
    let mut bytes = Zeroizing::new([0; ResumeToken::LEN]);
    fill(&mut *bytes).ok()?;
    Some(ResumeToken::from_bytes(*bytes))
}

pub(super) fn fill(bytes: &mut [u8]) -> Result<(), NoRandomness> {
    getrandom::fill(bytes).map_err(NoRandomness)
}
