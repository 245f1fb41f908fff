//! What the two sides say to each other.

use nalix_core::packet;

/// Answered with what the server knows of the client.
#[packet(opcode = 0x1001, reply = String)]
pub struct WhoAmI;

/// Marked: without encryption it is refused before a byte leaves, whatever the connection.
#[packet(opcode = 0x1002, reply = String, encrypt)]
pub struct Whisper {
    #[wire(max_len = 64)]
    pub secret: String,
}

/// Kept with the session, over its connections.
#[packet(opcode = 0x1003, reply = ())]
pub struct Remember {
    #[wire(max_len = 256)]
    pub note: String,
}

/// Answered with what was remembered.
#[packet(opcode = 0x1004, reply = Option<String>)]
pub struct Recall;
