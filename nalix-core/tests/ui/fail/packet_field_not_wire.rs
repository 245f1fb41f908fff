use nalix_core::packet;

struct Plain;

#[packet(opcode = 0x1001)]
struct Named {
    plain: Plain,
}

fn main() {}
