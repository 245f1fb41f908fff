//! What server and client know of each other.

use nalix_core::{Wire, packet};

/// Who logs in may do more from then on.
#[packet(opcode = 0x1001, reply = (), error = LoginError)]
pub struct Login {
    #[wire(max_len = 32)]
    pub name: String,
    #[wire(max_len = 64)]
    pub password: String,
}

#[derive(Debug, Wire, thiserror::Error)]
pub enum LoginError {
    #[error("the name or the password is wrong")]
    Wrong,
}

#[packet(opcode = 0x1002, reply = u64)]
pub struct Post {
    pub text: String,
}

/// Takes so many milliseconds.
#[packet(opcode = 0x1003, reply = ())]
pub struct Search {
    pub takes: u64,
}

#[packet(opcode = 0x1004, reply = ())]
pub struct AskBroken;

/// Never leaves a side whose connection is not encrypted.
#[packet(opcode = 0x1005, reply = (), encrypt)]
pub struct Secret;

#[packet(opcode = 0x1006, reply = ())]
pub struct Position;

#[packet(opcode = 0x1007, reply = ())]
pub struct OpenVault;

/// Bans the caller's address.
#[packet(opcode = 0x1008, reply = ())]
pub struct BanMe {
    pub seconds: u64,
}
