//! A controller may be generic; it is added by hand, since nothing says for what it would be discovered.

use nalix_core::{Context, controller::Router, packet, packet_controller};

#[packet(opcode = 0x1001, reply = u8)]
struct Ping;

#[packet(opcode = 0x1002)]
struct Moved;

trait Backend {
    fn value(&self) -> u8;
}

struct One;

impl Backend for One {
    fn value(&self) -> u8 {
        1
    }
}

struct Game<B, const N: usize> {
    backend: B,
}

#[packet_controller]
impl<B, const N: usize> Game<B, N>
where
    B: Backend + Send + Sync + 'static,
{
    #[packet]
    fn ping(&self, _: Ping) -> u8 {
        self.backend.value()
    }

    #[packet]
    async fn moved(&self, _: Moved) {}

    #[connected]
    async fn hello(&self, _: &Context) {}
}

fn main() {
    let mut router = Router::builder();
    router.add(Game::<One, 3> { backend: One });
    assert_eq!(router.build().unwrap().handlers().len(), 2);
}
