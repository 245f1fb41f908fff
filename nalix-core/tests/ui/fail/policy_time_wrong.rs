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
    #[packet(timeout = "0s")]
    async fn ping(&self, _: Ping) -> u8 {
        1
    }

    #[packet(timeout = "2 fortnights", breaker = 0, cool_down = "366d")]
    async fn pong(&self, _: Pong) -> u8 {
        1
    }

    #[packet(timeout = "2s", cool_down = "1s")]
    fn moved(&self, _: Moved) {}
}

fn main() {}
