use nalix_core::{packet, packet_controller};

#[packet(opcode = 0x1001, reply = u8)]
struct Ping;

#[packet(opcode = 0x1001, reply = u8)]
struct Pong;

type Alias = Ping;

struct Game;

#[packet_controller]
impl Game {
    #[packet]
    fn ping(&self, _: Ping) -> u8 {
        1
    }

    #[packet]
    fn pong(&self, _: Pong) -> u8 {
        1
    }

    #[packet]
    fn alias(&self, _: Alias) -> u8 {
        1
    }
}

fn main() {}
