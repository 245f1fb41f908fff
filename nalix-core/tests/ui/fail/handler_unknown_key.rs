use nalix_core::{packet, packet_controller};

#[packet(opcode = 0x1001, reply = u8)]
struct Ping;

#[packet(opcode = 0x1002)]
struct Moved;

struct Game;

#[packet_controller]
impl Game {
    #[packet(permissions = Permission::USER, rates = "5/s", concurrent)]
    fn ping(&self, _: Ping) -> u8 {
        1
    }
}

fn main() {}
