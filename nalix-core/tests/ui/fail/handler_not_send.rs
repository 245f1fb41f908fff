use nalix_core::{packet, packet_controller};

#[packet(opcode = 0x1001, reply = u8)]
struct Ping;

#[packet(opcode = 0x1002)]
struct Moved;

struct Game;

use std::rc::Rc;

async fn other() {}

#[packet_controller]
impl Game {
    #[packet]
    async fn ping(&self, _: Ping) -> u8 {
        let count = Rc::new(1);
        other().await;
        *count
    }
}

fn main() {}
