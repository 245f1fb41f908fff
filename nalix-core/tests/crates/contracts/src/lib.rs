//! Packets that nothing refers to: whoever links this crate has them in the registry.

mod unused {
    use nalix_core::{packet, packet_controller};

    #[packet(opcode = 0x1001, reply = u8)]
    struct Ping;

    mod deeper {
        #[nalix_core::packet(opcode = 0x1002)]
        struct Moved {
            x: u8,
        }
    }

    #[derive(Default)]
    struct Game;

    #[packet_controller]
    impl Game {
        #[packet]
        fn ping(&self, _: Ping) -> u8 {
            1
        }
    }
}

#[nalix_core::packet(opcode = 0x1003)]
pub enum Public {
    A,
}
