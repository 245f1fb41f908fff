use nalix_core::packet;

const OPCODE: u16 = 0x00FF;

#[packet(opcode = OPCODE)]
struct Named {
    a: u8,
}

fn main() {}
