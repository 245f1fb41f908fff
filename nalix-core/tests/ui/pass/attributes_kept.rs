//! Whatever else stands on an item stays there, before and behind ours.

#![deny(warnings)]
#![allow(dead_code)]

use nalix_core::{Wire, packet, packet_controller, wire::to_vec};

/// Odd text: "quotes", {braces}, {}, \n, r#"raw"#, `#[packet]`, 'a.
#[derive(Debug, Clone)]
#[packet(opcode = 0x1001, reply = Pong)]
#[derive(PartialEq, Eq, Hash)]
#[non_exhaustive]
#[must_use]
pub struct Ping {
    /// A field: "quoted" {0}.
    #[doc = concat!("a", "b")]
    #[allow(clippy::all)]
    pub a: u8,
    #[deprecated = "use a"]
    pub b: u8,
}

/// An enum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Wire)]
#[repr(u8)]
pub enum Pong {
    /// With a discriminant, which plays no role.
    #[default]
    A = 7,
    /// Old.
    #[deprecated]
    B = 3,
}

#[deprecated(note = "an old packet")]
#[packet(opcode = 0x1002)]
pub struct Old;

#[repr(C, align(16))]
#[packet(opcode = 0x1003)]
pub struct Aligned(u8);

/// A controller.
pub struct Game;

#[packet_controller]
#[allow(clippy::unused_self)]
impl Game {
    /// A constant.
    pub const A: u8 = 1;

    /// A handler: "quoted" {}.
    #[packet]
    #[inline(never)]
    #[must_use]
    pub fn ping(&self, #[allow(unused_variables)] ping: Ping) -> Pong {
        Pong::A
    }

    /// An old handler.
    #[deprecated]
    #[expect(deprecated, reason = "about its packet")]
    #[packet]
    pub async fn old(&self, _: Old) {}
}

fn main() {
    #[allow(deprecated)]
    let ping = Ping { a: 1, b: 2 };
    assert_eq!(ping.clone(), ping);
    assert_eq!(to_vec(&Pong::A).unwrap(), [0]);
    assert_eq!(Game::A, 1);
    assert_eq!(Game.ping(ping), Pong::default());
}
