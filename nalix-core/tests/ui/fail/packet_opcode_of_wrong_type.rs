use nalix_core::packet;

const OPCODE: u32 = 0x1001;

#[packet(opcode = OPCODE)]
struct Constant;

#[packet(opcode = "0x1001")]
struct Text;

fn main() {}
