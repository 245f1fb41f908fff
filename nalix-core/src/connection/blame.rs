//! What a peer is told that does not follow the protocol.

use crate::{error::ProtocolError, status::CloseCode};

/// The code to close with, in the handshake and after it.
pub(super) fn code_of(error: &ProtocolError) -> CloseCode {
    match error {
        ProtocolError::Unauthentic => CloseCode::DecryptFailed,
        ProtocolError::Unsealed { .. } => CloseCode::EncryptionRequired,
        _ => CloseCode::ProtocolError,
    }
}
