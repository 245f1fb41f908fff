use nalix_core::packet;

#[packet(opcode = 0x00FF)]
struct Named {
    a: u8,
}

fn main() {}
