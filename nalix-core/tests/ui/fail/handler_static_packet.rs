use nalix_core::{packet, packet_controller};

#[packet(opcode = 0x1001, reply = u8)]
struct Checksum<'a> {
    data: &'a [u8],
}

struct Game;

#[packet_controller]
impl Game {
    #[packet]
    fn checksum(&self, _: Checksum<'static>) -> u8 {
        1
    }
}

fn main() {}
