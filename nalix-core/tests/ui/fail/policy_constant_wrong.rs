use nalix_core::{packet, packet_controller};

#[packet(opcode = 0x1001, reply = u8)]
struct Ping;

#[packet(opcode = 0x1002, reply = u8)]
struct Pong;

#[packet(opcode = 0x1003)]
struct Moved;

struct Game;

#[packet_controller]
impl Game {
    #[packet(rate = "10/s", burst = NONE)]
    async fn ping(&self, _: Ping) -> u8 {
        1
    }
}

const NONE: u32 = 0;

fn main() {}
