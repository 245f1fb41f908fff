use nalix_core::{CloseReason, Context, Wire, packet, packet_controller};

#[packet(opcode = 0x1001, reply = Welcome)]
struct Login {
    #[wire(encrypt)]
    password: String,
}

#[derive(Wire)]
#[wire(encrypt)]
struct Welcome;

struct Game;

#[packet_controller(encrypt)]
impl Game {
    #[packet]
    fn login(&self, _: Login) -> Welcome {
        Welcome
    }

    #[connected(encrypt)]
    fn hello(&self, _: &Context) {}

    #[disconnected(encrypt)]
    fn bye(&self, _: &Context, _: &CloseReason) {}
}

fn main() {}
