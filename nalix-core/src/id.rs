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

/// Names one connection within a process; never used twice while the process lives, and higher than those of earlier ones.
///
/// It is made of a number that grows, and below that of a slot: a small number that no other connection has at the same
/// time.
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
    /// The highest slot there is.
    pub(crate) const MAX_SLOT: u32 = (1 << SLOT_BITS) - 1;

    pub(crate) const fn from_parts(sequence: u64, slot: u32) -> Self {
        Self(sequence << SLOT_BITS | slot as u64)
    }

    /// Its slot: small, and no other connection's while anyone holds a handle of this one. For tables that are indexed by
    /// connection. There are 16,777,215 of them.
    pub const fn slot(self) -> u32 {
        self.0 as u32 & Self::MAX_SLOT
    }
}

/// The rest is enough for ten thousand connections a second, for three years.
const SLOT_BITS: u32 = 24;

impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
