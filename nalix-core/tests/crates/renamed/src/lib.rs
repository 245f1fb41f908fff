//! Knows `nalix-core` under another name only, in an old edition.

use net::{Context, Wire, packet, packet_controller};

#[packet(opcode = 0x1001, reply = Pong)]
pub struct Ping<'a> {
    #[wire(max_len = 3)]
    pub text: &'a str,
}

#[derive(Wire)]
pub enum Pong {
    A {
        #[wire(varint)]
        n: u32,
    },
}

#[derive(Default)]
pub struct Game;

#[packet_controller]
impl Game {
    #[packet]
    async fn ping(&self, _: &Context, ping: Ping<'_>) -> Pong {
        Pong::A { n: ping.text.len() as u32 }
    }
}
