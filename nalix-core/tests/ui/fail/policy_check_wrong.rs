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
    #[packet(permission = u8::MAX)]
    async fn ping(&self, _: Ping) -> u8 {
        1
    }

    #[packet(check = 1)]
    async fn moved(&self, _: Moved) {}
}

fn main() {}
