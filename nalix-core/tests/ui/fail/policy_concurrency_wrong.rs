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
    #[packet(queue = 16, wait = "1s")]
    async fn ping(&self, _: Ping) -> u8 {
        1
    }

    #[packet(concurrency = 0)]
    async fn pong(&self, _: Pong) -> u8 {
        1
    }

    #[packet(concurrency = 1, queue = 0, wait = "1s")]
    async fn moved(&self, _: Moved) {}
}

fn main() {}
