//! What both sides know.

use nalix_core::packet;

/// Adds one, and must not run twice. Answered with how much there is.
#[packet(opcode = 0x5001, reply = u64)]
pub struct Add;

/// A number on its way to the server; each comes once, in order.
#[packet(opcode = 0x5002)]
pub struct Up(pub u64);

/// A number on its way to the client.
#[packet(opcode = 0x5003)]
pub struct Down(pub u64);

/// So many numbers, as a stream.
#[packet(opcode = 0x5004, stream = u64)]
pub struct Numbers {
    pub count: u64,
}

/// Asks for what the server has seen, and ends what it sends by itself.
#[packet(opcode = 0x5005, reply = Seen)]
pub struct Finish;

/// What the server has seen.
#[derive(Debug, Default, Clone, nalix_core::Wire)]
pub struct Seen {
    /// How often it has added.
    pub added: u64,
    /// How many numbers have come.
    pub up: u64,
    /// How many of those were not the next one.
    pub up_wrong: u64,
    /// How many numbers it has sent.
    pub down: u64,
    /// How many sessions it has greeted.
    pub greeted: u64,
}
