use nalix_core::{packet, packet_controller};

#[packet(opcode = 0x1001, reply = u8)]
struct Ping;

#[packet(opcode = 0x1002)]
struct Moved;

struct Game;

#[packet_controller]
impl Game {
    #[packet(priority = 1)]
    fn ping<T>(&mut self, _: &Ping) -> u8 {
        1
    }

    #[packet]
    fn moved(&self, _: Moved) {}

    #[connected]
    fn hello(&self) -> u8 {
        1
    }
}

// Uses add nothing to the list.
fn check(builder: &mut nalix_core::controller::RouterBuilder) {
    builder.add(Game);
}

fn main() {}
