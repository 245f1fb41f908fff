//! What the two sides say to each other. In a real project this is a crate of its own that depends on `nalix-core`
//! alone, and that both the server's and the client's crate depend on.

use nalix_core::{Wire, packet};

use crate::names::NameFault;

/// Enters a room. Answered with what has been said there lately, oldest first; what happens from then on comes as
/// [`Event`]s, without a gap and nothing twice.
#[packet(opcode = 0x4001, stream = Line, error = JoinError)]
pub struct Join {
    #[wire(max_len = 256)]
    pub name: String,
    #[wire(max_len = 256)]
    pub room: String,
}

/// Answered when everybody in the room has been sent it.
#[packet(opcode = 0x1001, reply = (), error = SayError)]
pub struct Say {
    #[wire(max_len = 1000)]
    pub text: String,
}

/// Answered with the names of those in the room.
#[packet(opcode = 0x1002, reply = Vec<String>, error = NotInRoom)]
pub struct Who;

#[packet(opcode = 0x1003, reply = (), error = NotInRoom)]
pub struct Leave;

/// What happens in the room, sent to all in it but the one who does it. One packet, so that one subscription gets
/// everything in the order in which it happened.
#[packet(opcode = 0x3001)]
#[derive(Debug)]
pub enum Event {
    Said(Line),
    Joined { name: String },
    Left { name: String },
}

/// Something that was said.
#[derive(Debug, Clone, PartialEq, Wire)]
pub struct Line {
    pub from: String,
    pub text: String,
}

/// Why a [`Join`] fails.
#[derive(Debug, PartialEq, Wire, thiserror::Error)]
pub enum JoinError {
    #[error("that cannot be a name: {0}")]
    BadName(#[source] NameFault),
    #[error("that cannot be a room: {0}")]
    BadRoom(#[source] NameFault),
    #[error("somebody in {room} is called {name} already")]
    NameTaken { name: String, room: String },
    #[error("{room} is full, {limit} are there")]
    RoomFull { room: String, limit: u32 },
    #[error("you are in {room}, leave it first")]
    AlreadyIn { room: String },
}

/// Why a [`Say`] fails.
#[derive(Debug, PartialEq, Wire, thiserror::Error)]
pub enum SayError {
    #[error(transparent)]
    NotInRoom(#[from] NotInRoom),
    #[error("there is nothing in it")]
    Empty,
    #[error("it has a control character in it")]
    ControlCharacter,
}

#[derive(Debug, PartialEq, Wire, thiserror::Error)]
#[error("you are in no room")]
pub struct NotInRoom;
