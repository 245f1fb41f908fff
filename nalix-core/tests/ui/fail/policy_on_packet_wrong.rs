use nalix_core::packet;

#[packet(opcode = 0x1001, permission = 300, max_size = "4k", rate = "10/s")]
struct Ping;

#[packet(opcode = 0x1002, permission = 7u16)]
struct Pong;

fn main() {}
