use nalix_core::packet;

#[packet(opcode = 0x1001, idempotent)]
struct Noted {
    a: u8,
}

fn main() {}
