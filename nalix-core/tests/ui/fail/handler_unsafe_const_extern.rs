use nalix_core::{packet, packet_controller};

#[packet(opcode = 0x1001, reply = u8)]
struct Ping;

#[packet(opcode = 0x1002)]
struct Moved;

struct Game;

#[packet_controller]
impl Game {
    #[packet]
    unsafe fn ping(&self, _: Ping) -> u8 {
        1
    }

    #[packet]
    const extern "C" fn moved(&self, _: Moved) {}
}

fn main() {}
