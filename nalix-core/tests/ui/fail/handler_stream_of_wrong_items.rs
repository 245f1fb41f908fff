use futures_core::Stream;
use nalix_core::{packet, packet_controller};

#[packet(opcode = 0x1001, stream = u8)]
struct Watch;

struct Game;

#[packet_controller]
impl Game {
    #[packet]
    fn watch(&self, _: Watch) -> impl Stream<Item = String> {
        Empty
    }
}

struct Empty;

impl Stream for Empty {
    type Item = String;

    fn poll_next(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<String>> {
        std::task::Poll::Ready(None)
    }
}

fn main() {}
