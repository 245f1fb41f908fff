use nalix_core::packet;

const FROM: u32 = 4096;

#[packet(opcode = 0x1001, compress = FROM)]
struct Snapshot(Vec<u8>);

fn main() {}
