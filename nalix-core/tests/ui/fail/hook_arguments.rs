use nalix_core::{CloseReason, Context, packet, packet_controller};

#[packet(opcode = 0x1001, reply = u8)]
struct Ping;

#[packet(opcode = 0x1002)]
struct Moved;

struct Game;

#[packet_controller]
impl Game {
    #[connected]
    fn hello(&self) {}

    #[disconnected]
    fn bye(&self, _: &Context) {}

    #[detached]
    fn away(&self, _: &Context) {}

    #[resumed]
    fn back(&self, _: &Context, _: &CloseReason) {}

    #[packet]
    fn ping(&self, _: Ping) -> u8 {
        1
    }
}

struct Other;

#[packet_controller]
impl Other {
    #[connected(always)]
    fn hello(_: &Context) {}

    #[disconnected]
    fn bye(&self, _: Context, _: CloseReason) {}
}

fn main() {}
