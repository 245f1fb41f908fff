use nalix_core::{packet, packet_controller};

#[packet(opcode = 0x1001, reply = u8)]
struct Ping;

struct Game<'a> {
    name: &'a str,
}

#[packet_controller]
impl<'a> Game<'a> {
    #[packet]
    fn ping(&self, _: Ping) -> u8 {
        1
    }
}

fn main() {}
