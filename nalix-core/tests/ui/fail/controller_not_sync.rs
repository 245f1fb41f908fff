use nalix_core::{packet, packet_controller};

#[packet(opcode = 0x1001, reply = u8)]
struct Ping;

struct Game {
    count: std::cell::Cell<u8>,
}

#[packet_controller]
impl Game {
    #[packet]
    fn ping(&self, _: Ping) -> u8 {
        self.count.get()
    }
}

fn main() {}
