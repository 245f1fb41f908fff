use nalix_core::packet;

struct Plain;

#[packet(opcode = 0x1001, reply = Plain)]
struct Named {
    a: u8,
}

fn main() {}
