//! Items may come from `macro_rules!` and stand inside functions.

use nalix_core::{Packet, Wire, controller::Router, packet, packet_controller, registry::Registry};

macro_rules! value {
    ($name:ident { $($field:ident: $ty:ty = $len:expr),* }) => {
        #[derive(Wire)]
        struct $name {
            $(#[wire(max_len = $len)] $field: $ty,)*
        }
    };
}

value!(Named { a: String = 1 + 2, b: Vec<u8> = 4 });

macro_rules! controller {
    ($ty:ty, $name:ident, $packet:ty => $reply:ty) => {
        #[packet_controller]
        impl $ty {
            #[packet]
            async fn $name(&self, _: $packet) -> $reply {
                Default::default()
            }
        }
    };
}

struct Game;

#[packet(opcode = 0x1001, reply = u8)]
struct Ping;

controller!(Game, ping, Ping => u8);

fn main() {
    #[packet(opcode = 0x1002, reply = Inner)]
    struct Local;

    #[derive(Wire)]
    struct Inner;

    struct LocalGame;

    #[packet_controller]
    impl LocalGame {
        #[packet]
        fn local(&self, _: Local) -> Inner {
            Inner
        }
    }

    assert_eq!(Registry::global().unwrap().by_name("Local").unwrap().opcode, Local::OPCODE);
    let mut router = Router::builder();
    router.add(LocalGame);
    router.add(Game);
    assert_eq!(router.build().unwrap().handlers().len(), 2);
    let _ = nalix_core::wire::to_vec(&Named { a: String::new(), b: Vec::new() });
}
