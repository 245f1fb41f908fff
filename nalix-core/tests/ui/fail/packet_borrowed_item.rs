use nalix_core::packet;

#[packet(opcode = 0x1001, upload = &'static str, stream = &[u8])]
struct Watch;

fn main() {}
