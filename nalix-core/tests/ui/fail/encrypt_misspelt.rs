use nalix_core::{packet, packet_controller};

#[packet(opcode = 0x1001, reply = u8, encrypted)]
struct Login;

#[packet(opcode = 0x1002, Encrypt)]
struct Moved;

struct Game;

#[packet_controller]
impl Game {
    #[packet(encryption)]
    fn login(&self, _: Login) -> u8 {
        1
    }
}

fn main() {}
