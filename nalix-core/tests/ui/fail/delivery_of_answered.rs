use nalix_core::packet;

#[packet(opcode = 0x1001, reply = u8, delivery = "latest")]
struct Asked;

#[packet(opcode = 0x1002, stream = u8, delivery = "sometimes")]
struct Watched;

fn main() {}
