//! Knows `nalix-core` through a facade only, and says so.

use facade::realtime::{Wire, packet, packet_controller};

#[packet(opcode = 0x1001, reply = Pong, crate = facade::realtime)]
pub struct Ping;

#[derive(Wire)]
#[wire(crate = facade::realtime, extensible)]
pub struct Pong {
    pub a: u8,
    #[wire(since = 2)]
    pub b: String,
}

#[derive(Default)]
pub struct Game;

#[packet_controller(crate = facade::realtime)]
impl Game {
    #[packet]
    fn ping(&self, _: Ping) -> Pong {
        Pong { a: 1, b: String::new() }
    }
}

#[cfg(feature = "mistake")]
#[derive(Wire)]
pub struct Mistake;

#[cfg(feature = "mistake")]
#[packet(opcode = 0x1002)]
pub struct MistakenPacket {
    #[wire(varint)]
    n: u32,
}

#[cfg(feature = "mistake")]
#[packet_controller]
impl Mistake {
    #[packet]
    fn ping(&self, _: Ping) -> Pong {
        Pong { a: 1, b: String::new() }
    }
}
