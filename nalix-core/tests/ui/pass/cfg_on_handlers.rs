//! What `cfg` removes from a controller is not registered.

use nalix_core::{Context, State, controller::Router, packet, packet_controller};

#[packet(opcode = 0x1001, reply = u8)]
struct Ping;

#[packet(opcode = 0x1002)]
struct Moved;

#[packet(opcode = 0x1003)]
struct Chat;

struct Game;

#[packet_controller]
impl Game {
    #[cfg(any())]
    #[packet]
    fn ping(&self, _: Missing) -> u8 {
        0
    }

    #[packet]
    #[cfg(all())]
    fn ping(&self, _: Ping) -> u8 {
        1
    }

    #[packet]
    async fn moved(
        &self,
        #[cfg(any())] _: State<Missing>,
        #[cfg(all())] _: &Context,
        #[cfg(all())] _: State<u8>,
        _: Moved,
    ) {
    }

    #[cfg_attr(all(), packet(lane = "chat"))]
    fn chat(&self, _: Chat) {}

    #[cfg_attr(any(), packet, doc = "not a handler")]
    fn not_a_handler(&self, _: Chat) {}

    #[cfg(any())]
    #[connected]
    fn hello(&self, _: &Missing) {}

    #[cfg(all())]
    #[connected]
    fn hello(&self, _: &Context) {}

    #[cfg(any())]
    #[disconnected]
    fn bye(&self, _: &Context, _: &Missing) {}
}

#[cfg(any())]
#[packet_controller]
impl Missing {}

fn main() {
    let mut router = Router::builder();
    router.add(Game);
    router.state(1u8);
    let router = router.build().unwrap();
    let names: Vec<_> = router.handlers().map(|spec| spec.name).collect();
    assert_eq!(names, ["Game::ping", "Game::moved", "Game::chat"]);
    Game.not_a_handler(Chat);
}
