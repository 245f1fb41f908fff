//! Nothing generated relies on the prelude.

#![no_implicit_prelude]

mod contracts {
    #[::nalix_core::packet(opcode = 0x1001, reply = Pong, error = Failed, encrypt)]
    #[derive(Debug)]
    pub struct Ping<'a> {
        #[wire(max_len = 10)]
        pub text: &'a str,
        #[wire(varint)]
        pub number: u32,
        #[wire(since = 2, default = seven)]
        pub later: u8,
        #[wire(since = 3)]
        pub last: ::std::option::Option<u8>,
    }

    fn seven() -> u8 {
        7
    }

    #[derive(Debug, ::nalix_core::Wire)]
    #[wire(extensible, max_depth = 3)]
    pub struct Pong<T = u8>(pub T, #[wire(skip)] pub u8);

    #[derive(Debug, ::nalix_core::Wire)]
    pub enum Failed {
        A,
        B {
            #[wire(max_depth = 2)]
            reason: ::std::string::String,
        },
    }

    #[derive(::nalix_core::Wire)]
    pub enum Never {}

    #[::nalix_core::packet(opcode = 0x1002)]
    pub struct Moved;
}

use contracts::{Failed, Moved, Ping, Pong};

struct Game;

#[::nalix_core::packet_controller]
impl Game {
    #[packet]
    async fn ping(&self, _: ::nalix_core::State<u8>, ping: Ping<'_>) -> ::std::result::Result<Pong, Failed> {
        match ping.number {
            0 => ::std::result::Result::Err(Failed::A),
            n => ::std::result::Result::Ok(Pong(n as u8, 0)),
        }
    }

    #[packet(concurrent, spawn, encrypt)]
    fn moved(&self, _: &::nalix_core::Context, _: ::nalix_core::State<u8>, _: Moved) {}

    #[connected]
    async fn hello(&self, _: &::nalix_core::Context) {}

    #[disconnected]
    fn bye(&self, _: &::nalix_core::Context, _: &::nalix_core::CloseReason) {}
}

fn main() {
    let _ = Game;
}
