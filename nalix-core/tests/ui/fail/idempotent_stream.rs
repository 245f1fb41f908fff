use nalix_core::packet;

#[packet(opcode = 0x1001, stream = u8, idempotent)]
struct Watch {
    a: u8,
}

#[packet(opcode = 0x1002, upload = u8, reply = (), idempotent)]
struct Store;

fn main() {}
