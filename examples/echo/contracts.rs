//! What the two sides say to each other. In a real project this is a crate of its own that depends on `nalix-core`
//! alone, and that both the server's and the client's crate depend on.

use nalix_core::{Wire, packet};

/// Answered with the same text.
#[packet(opcode = 0x1001, reply = Pong)]
pub struct Ping {
    #[wire(max_len = 1024)]
    pub message: String,
}

/// The answer to [`Ping`].
#[derive(Debug, Wire)]
pub struct Pong {
    pub message: String,
}

/// Answered with a quotient, or with an error of its own.
#[packet(opcode = 0x1002, reply = i64, error = DivideError)]
pub struct Divide {
    pub dividend: i64,
    pub divisor: i64,
}

/// Why a [`Divide`] fails.
#[derive(Debug, Wire, thiserror::Error)]
pub enum DivideError {
    #[error("cannot divide {dividend} by zero")]
    ByZero { dividend: i64 },
    #[error("the quotient does not fit")]
    Overflow,
}

/// One-way: nobody answers.
#[packet(opcode = 0x1003)]
pub struct Moved {
    pub x: f32,
    pub y: f32,
}

/// How many [`Moved`] packets of this client the server has seen.
#[packet(opcode = 0x1004, reply = u32)]
pub struct CountMoves;

/// Makes the server ask the client for its name.
#[packet(opcode = 0x1005, reply = String)]
pub struct Greet;

/// Asked by the server, answered by the client.
#[packet(opcode = 0x2001, reply = String)]
pub struct WhoAreYou {
    pub polite: bool,
}
