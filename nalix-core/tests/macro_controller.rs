//! `#[packet_controller]`: every form of handler.

use nalix_core::{CloseReason, Context, Failure, State, Status, Wire, packet, packet_controller};
use std::sync::Arc;

#[packet(opcode = 0x1001, reply = Pong)]
#[derive(Debug)]
pub struct Ping {
    #[wire(max_len = 256)]
    pub message: String,
}
#[derive(Debug, Clone, PartialEq, Wire)]
pub struct Pong {
    pub message: String,
}

#[packet(opcode = 0x1002, reply = i32)]
pub struct Sum {
    pub a: i32,
    pub b: i32,
}

#[packet(opcode = 0x1004, reply = u32)]
pub struct Checksum<'a> {
    pub data: &'a [u8],
    pub label: &'a str,
}

#[packet(opcode = 0x1005, reply = (), error = LoginError)]
pub struct Login;

#[derive(Debug, Wire)]
pub enum LoginError {
    Bad,
}

#[packet(opcode = 0x1006)]
pub struct Moved(f32, f32);

#[derive(Default)]
struct Game;

#[packet_controller]
impl Game {
    #[packet]
    async fn ping(&self, ping: Ping) -> Pong {
        Pong { message: ping.message }
    }
    #[packet]
    fn sum(&self, Sum { a, b }: Sum) -> i32 {
        a + b
    }
    #[packet]
    async fn checksum(self: Arc<Self>, ctx: &Context, c: Checksum<'_>) -> Result<u32, Status> {
        let _ = ctx;
        Ok(c.data.len() as u32)
    }
    #[packet(concurrent)]
    async fn login(&self, State(_db): State<u8>, _: Login) -> Result<(), Failure<LoginError>> {
        Err(LoginError::Bad)?
    }
    #[packet(lane = "move", spawn)]
    fn moved(self: &Arc<Self>, _m: Moved) {}
    #[connected]
    async fn hello(&self, _ctx: &Context) {}
    #[disconnected]
    fn bye(&self, _ctx: &Context, _why: &CloseReason) {}
}

#[test]
fn smoke() {
    let mut b = nalix_core::controller::Router::builder();
    b.add(Game);
    b.state(1u8);
    println!("{:?}", b.build().unwrap());
}
