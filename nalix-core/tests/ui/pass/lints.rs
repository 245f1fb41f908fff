//! Nothing generated warns, whatever the user's crate denies.

#![forbid(unsafe_code)]
#![deny(warnings, missing_docs, missing_debug_implementations, unused, unreachable_pub, rust_2018_idioms)]
#![deny(elided_lifetimes_in_paths, explicit_outlives_requirements, single_use_lifetimes, trivial_casts)]
#![deny(trivial_numeric_casts, unused_qualifications, unused_lifetimes, let_underscore_drop, unit_bindings)]
#![deny(
    variant_size_differences,
    meta_variable_misuse,
    non_ascii_idents,
    unused_results,
    missing_copy_implementations
)]
#![allow(unused_crate_dependencies)]

use nalix_core::{CloseReason, Context, State, Wire, packet, packet_controller};

#[packet(opcode = 0x1001, reply = Pong, error = Failed)]
#[derive(Debug)]
pub(crate) struct Ping<'a> {
    #[wire(max_len = 10)]
    text: &'a str,
    #[wire(varint)]
    number: u32,
    #[wire(since = 2, default = seven)]
    later: u8,
}

fn seven() -> u8 {
    7
}

#[derive(Debug, Wire)]
#[wire(extensible, max_depth = 3)]
struct Pong<T = u8>(T, #[wire(skip)] ());

#[derive(Debug, Wire)]
enum Failed {
    A,
    B { reason: String },
}

#[packet(opcode = 0x1002, exact)]
#[derive(Debug)]
struct Moved(u8, u8);

#[derive(Debug, Default)]
struct Game;

#[packet_controller]
impl Game {
    #[packet]
    async fn ping(&self, _: State<u8>, ping: Ping<'_>) -> Result<Pong, Failed> {
        match ping.number {
            0 => Err(Failed::A),
            1 => Err(Failed::B { reason: ping.text.to_owned() }),
            _ => Ok(Pong(ping.later, ())),
        }
    }

    #[packet(lane = "moves")]
    fn moved(&self, _: &Context, Moved(..): Moved) {}

    #[connected]
    async fn hello(&self, _: &Context) {}

    #[disconnected]
    fn bye(&self, _: &Context, _: &CloseReason) {}
}

fn main() {
    let mut router = nalix_core::controller::Router::builder();
    router.discover();
    router.state(1u8);
    assert_eq!(router.build().map(|router| router.handlers().len()), Ok(2));
}
