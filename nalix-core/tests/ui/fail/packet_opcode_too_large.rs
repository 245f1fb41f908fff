use nalix_core::packet;

#[packet(opcode = 0x1_0000)]
struct Named {
    a: u8,
}

fn main() {}
