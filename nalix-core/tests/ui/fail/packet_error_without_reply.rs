use nalix_core::packet;

#[packet(opcode = 0x1001, error = u8)]
struct Named {
    a: u8,
}

fn main() {}
