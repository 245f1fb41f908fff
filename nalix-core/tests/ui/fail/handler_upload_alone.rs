use nalix_core::{Incoming, packet, packet_controller};

#[packet(opcode = 0x1001, upload = u8, reply = u8)]
struct Store;

#[packet(opcode = 0x1002, reply = u8)]
struct Ping;

struct Game;

#[packet_controller]
impl Game {
    #[packet]
    async fn store(&self, chunks: Incoming<u8>) -> u8 {
        drop(chunks);
        0
    }
}

fn main() {}
