use nalix_core::{packet, packet_controller};

#[packet(opcode = 0x1001, reply = u8)]
struct Ping;

#[packet(opcode = 0x1002)]
struct Moved;

struct Game;

#[packet_controller]
impl Game {
    #[packet]
    fn none(_: Ping) -> u8 {
        1
    }

    #[packet]
    fn nothing() {}

    #[packet]
    fn mutable(&mut self, _: Ping) -> u8 {
        1
    }

    #[packet]
    fn value(self, _: Ping) -> u8 {
        1
    }

    #[packet]
    fn boxed(self: Box<Self>, _: Ping) -> u8 {
        1
    }
}

fn main() {}
