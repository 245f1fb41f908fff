use nalix_core::packet;

#[packet(opcode = 0x1001, delivery = "drop-oldest")]
struct Line;

#[packet(opcode = 0x1002, delivery = "Latest")]
struct Spot;

#[packet(opcode = 0x1003, delivery = 1)]
struct Number;

fn main() {}
