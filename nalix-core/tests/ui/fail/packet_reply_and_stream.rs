use nalix_core::packet;

#[packet(opcode = 0x1001, reply = u8, stream = u8)]
struct Watch;

fn main() {}
