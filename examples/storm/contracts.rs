//! What both sides know.

use nalix_core::{Wire, packet};

/// How many are there.
#[packet(opcode = 0x5101, reply = There, idempotent)]
pub struct Count;

#[derive(Debug, Clone, PartialEq, Wire)]
pub struct There {
    pub connections: u64,
    pub in_group: u64,
}

/// Makes the server send a [`Shout`] to its group once. Answered with how many it goes to.
#[packet(opcode = 0x5102, reply = u64)]
pub struct ShoutOnce;

#[packet(opcode = 0x5103)]
pub struct Shout;
