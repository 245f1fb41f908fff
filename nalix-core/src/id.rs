//! Newtypes for the numbers that travel: opcodes, call ids, connection ids.

use std::fmt;

/// The number that says which packet a frame carries.
///
/// `0x0000` to `0x00FF` belong to the framework; a user's packet that claims one of them does not compile.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Opcode(u16);

impl Opcode {
    /// The first opcode that a user's packet may have.
    pub const FIRST_FREE: Opcode = Opcode(0x0100);

    /// Wraps a number; any `u16` is representable, since a peer may send any.
    pub const fn new(value: u16) -> Self {
        Self(value)
    }

    /// The number itself.
    pub const fn get(self) -> u16 {
        self.0
    }

    /// Whether the framework keeps this opcode for itself.
    pub const fn is_reserved(self) -> bool {
        self.0 < Self::FIRST_FREE.0
    }
}

impl fmt::Display for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#06x}", self.0)
    }
}

impl fmt::Debug for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A call's number on the wire: the slot that the side which asked keeps it in.
///
/// Small, and used again only when the exchange is over on both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(u32);

impl CallId {
    /// Wraps a slot number.
    pub const fn new(value: u32) -> Self {
        Self(value)
    }

    /// The slot number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// Names one connection within a process; never used twice while the process lives.
///
/// It is made of a slot, which is a small number that no other connection has at the same time, and a generation, which
/// tells those apart that have the slot one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(u64);

impl ConnectionId {
    /// Wraps a number.
    pub const fn new(value: u64) -> Self {
        Self(value)
    }

    /// The number itself.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl ConnectionId {
    pub(crate) const fn from_slot(slot: u32, generation: u32) -> Self {
        Self((generation as u64) << 32 | slot as u64)
    }

    /// Its slot: small, and no other connection's while anyone holds this one. For tables that are indexed by connection.
    pub const fn slot(self) -> u32 {
        self.0 as u32
    }

    /// How many connections have had the slot before.
    pub const fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
