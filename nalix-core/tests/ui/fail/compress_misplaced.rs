use nalix_core::{Wire, packet, packet_controller};

#[packet(opcode = 0x1001, reply = u8, compress, compress = 10)]
struct Twice(Vec<u8>);

#[derive(Wire)]
#[wire(compress)]
struct Value;

#[packet(opcode = 0x1002, reply = u8)]
struct Ask;

struct Game;

#[packet_controller]
impl Game {
    #[packet(compress)]
    fn ask(&self, _: Ask) -> u8 {
        1
    }
}

fn main() {}
