use nalix_core::packet;

#[packet(opcode = 0x1001, reply = u8, priority = "urgent")]
struct Backup;

#[packet(opcode = 0x1002, priority)]
struct Moved;

#[packet(opcode = 0x1003, priority = "bulk", priority = "high")]
struct Twice;

fn main() {}
