use nalix_core::{packet, packet_controller};

#[packet(opcode = 0x1001, stream = u8)]
struct Watch;

struct Game;

#[packet_controller]
impl Game {
    #[packet]
    fn watch(&self, _: Watch) -> u8 {
        0
    }
}

fn main() {}
