use nalix_core::{Context, packet, packet_controller};

#[packet(opcode = 0x1001, reply = u8)]
struct Ping;

#[packet(opcode = 0x1002)]
struct Moved;

struct Game;

#[packet_controller]
impl Game {
    #[packet]
    #[packet(concurrent)]
    fn ping(&self, _: Ping) -> u8 {
        1
    }

    #[packet]
    #[connected]
    fn moved(&self, _: &Context) {}
}

fn main() {}
