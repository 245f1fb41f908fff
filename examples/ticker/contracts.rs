//! What the two sides say to each other.

use std::time::SystemTime;

use nalix_core::{Wire, packet};

/// What is traded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Wire)]
pub enum Symbol {
    Corn,
    Gold,
    Rye,
}

impl Symbol {
    pub const ALL: [Symbol; 3] = [Symbol::Corn, Symbol::Gold, Symbol::Rye];
}

/// A price. It is an item of streams, and a packet that is pushed to those who have subscribed.
#[packet(opcode = 0x3001)]
#[derive(Debug, Clone, PartialEq)]
pub struct Quote {
    pub symbol: Symbol,
    /// Counts the quotes of the symbol.
    #[wire(varint)]
    pub number: u64,
    /// In cents.
    #[wire(varint)]
    pub price: u32,
    pub at: SystemTime,
}

/// Answered with a stream of quotes, which begins with the next one.
#[packet(opcode = 0x4001, stream = Tick)]
pub struct Watch {
    pub symbol: Symbol,
    pub pace: Pace,
    /// A number of the client's choice below [`READERS`], for [`Made`].
    pub reader: u8,
}

/// How many streams of one connection are counted.
pub const READERS: usize = 8;

/// What a reader gets who is slower than the market.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Wire)]
pub enum Pace {
    /// All quotes, late. Those that the market does not remember any more are left out.
    Every,
    /// The latest one, each time that there is room for one.
    Latest,
}

/// A quote on a stream.
#[derive(Debug, Wire)]
pub struct Tick {
    /// How many quotes were left out before this one.
    #[wire(varint)]
    pub skipped: u64,
    pub quote: Quote,
}

/// Makes the server push each [`Quote`] of a symbol, from now on.
#[packet(opcode = 0x1001, reply = ())]
pub struct Subscribe {
    pub symbol: Symbol,
}

/// Answered with how many items the server has made for the reader of this number.
#[packet(opcode = 0x1002, reply = u64)]
pub struct Made {
    pub reader: u8,
}

/// A small call beside the streams.
#[packet(opcode = 0x1003, reply = ())]
pub struct Ping;
