//! Only owned one-way packets can be subscribed to.

use nalix_core::{Connection, packet};

#[packet(opcode = 0x1001, reply = u32)]
struct Sum {
    a: u32,
}

#[packet(opcode = 0x3001)]
struct Said<'a> {
    text: &'a str,
}

#[packet(opcode = 0x3002)]
struct Moved {
    x: u32,
}

struct NoPacket;

fn main() {}

fn subscribe(connection: &Connection) {
    let _ = connection.subscribe::<Moved>();
    let _ = connection.subscribe::<Sum>();
    let _ = connection.subscribe::<NoPacket>();
    connection.on::<Sum>(|_| ()).keep();
}

fn borrow(connection: &Connection) {
    let _ = connection.subscribe::<Said<'_>>();
}
