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
    #[packet(burst = 10)]
    async fn ping(&self, _: Ping) -> u8 {
        1
    }

    #[packet(cost = 2, key = address)]
    async fn pong(&self, _: Pong) -> u8 {
        1
    }

    #[packet(rate = 10)]
    async fn moved(&self, _: Moved) {}
}

fn main() {}
