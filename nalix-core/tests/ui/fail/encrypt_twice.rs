use nalix_core::{packet, packet_controller};

#[packet(encrypt, opcode = 0x1001, reply = u8, encrypt)]
struct Login;

struct Game;

#[packet_controller]
impl Game {
    #[packet(encrypt, concurrent, encrypt)]
    fn login(&self, _: Login) -> u8 {
        1
    }
}

fn main() {}
