use nalix_core::packet;

#[packet(opcode = 0x1001, opcode = 0x1002)]
struct Named {
    a: u8,
}

fn main() {}
