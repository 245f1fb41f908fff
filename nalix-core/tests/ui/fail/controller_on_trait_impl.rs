use nalix_core::{packet, packet_controller};

#[packet(opcode = 0x1001, reply = u8)]
struct Ping;

#[packet(opcode = 0x1002)]
struct Moved;

struct Game;

trait Service {
    fn ping(&self, ping: Ping) -> u8;
}

#[packet_controller]
impl Service for Game {
    #[packet]
    fn ping(&self, _: Ping) -> u8 {
        1
    }
}

fn main() {}
