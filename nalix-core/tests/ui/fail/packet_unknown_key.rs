use nalix_core::packet;

#[packet(opcode = 0x1001, replies = Vec<(u8, u8)>, encrypted, reply = u8)]
struct Named {
    a: u8,
}

fn main() {}
