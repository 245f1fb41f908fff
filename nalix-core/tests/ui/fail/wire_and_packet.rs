use nalix_core::{Wire, packet};

#[packet(opcode = 0x1001)]
#[derive(Debug, Wire)]
struct Below;

#[derive(Debug, Wire)]
#[packet(opcode = 0x1002)]
struct Above;

fn main() {}
