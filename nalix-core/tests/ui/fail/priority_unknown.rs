use nalix_core::packet;

#[packet(opcode = 0x1001, reply = u8, priority = "urgent")]
struct Backup;

fn main() {}
