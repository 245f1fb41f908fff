use nalix_core::{CloseReason, Context, packet, packet_controller};

#[packet(opcode = 0x1001, reply = u8)]
struct Ping;

#[packet(opcode = 0x1002)]
struct Moved;

struct Game;

#[packet_controller]
impl Game {
    #[connected]
    fn hello(&self, _: &String) {}

    #[disconnected]
    async fn bye(&self, _: &CloseReason, _: &Context) {}
}

fn main() {}
