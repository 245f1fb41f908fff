use nalix_core::packet;

#[packet(opcode = 0x1001, reply = u8, idempotent = true)]
struct Get {
    a: u8,
}

fn main() {}
