use nalix_core::packet;

#[packet(opcode = 0x1001, upload = u8)]
struct Upload;

fn main() {}
