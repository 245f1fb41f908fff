//! Depends on `nalix-server` alone, under another name: the macros find `nalix_core` by themselves.

use srv::{Context, Wire, packet, packet_controller};

#[packet(opcode = 0x1001, reply = Pong)]
pub struct Ping;

#[derive(Wire)]
pub struct Pong(pub u8);

pub struct Game;

#[packet_controller]
impl Game {
    #[packet]
    fn ping(&self, _: &Context, _: Ping) -> Pong {
        Pong(1)
    }
}
