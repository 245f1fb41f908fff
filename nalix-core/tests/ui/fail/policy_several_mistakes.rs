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
    #[packet(permission = 256, max_size = -1, transport = "carrier pigeon", timeout = "soon", rates = "1/s")]
    async fn ping(&self, _: Ping) -> u8 {
        1
    }

    #[packet(permission = "user", transport = ["tcp", "tcp"], max_size = 1_073_741_825)]
    async fn pong(&self, _: Pong) -> u8 {
        1
    }

    #[packet(transport = [], permission = u8::MAX, check = 1)]
    async fn moved(&self, _: Moved) {}
}

fn main() {}
