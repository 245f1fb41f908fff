use nalix_core::{Context, Status, packet, packet_controller};

#[packet(opcode = 0x1001, reply = u8)]
struct Ping;

#[packet(opcode = 0x1002)]
struct Moved;

struct Game;

#[packet_controller]
impl Game {
    #[connected]
    async fn hello(&self, _: &Context) -> Result<(), Status> {
        Ok(())
    }
}

fn main() {}
