use nalix_core::{CloseReason, Context, packet, packet_controller};

#[packet(opcode = 0x1001, reply = u8)]
struct Ping;

#[packet(opcode = 0x1002)]
struct Moved;

struct Game;

#[packet_controller]
impl Game {
    #[connected]
    fn hello(&self, _: &Context) {}

    #[connected]
    async fn hello_again(&self, _: &Context) {}

    #[disconnected]
    fn bye(&self, _: &Context, _: &CloseReason) {}

    #[disconnected]
    fn bye_again(&self, _: &Context, _: &CloseReason) {}
}

fn main() {}
