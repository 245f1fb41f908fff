use nalix_core::{packet, packet_controller};

#[packet(opcode = 0x1001, reply = u8, encrypt = true)]
struct Login;

#[packet(opcode = 0x1002, encrypt = false)]
struct Moved;

struct Game;

#[packet_controller]
impl Game {
    #[packet(encrypt = "always")]
    fn login(&self, _: Login) -> u8 {
        1
    }

    #[packet(encrypt(true))]
    fn moved(&self, _: Moved) {}
}

fn main() {}
