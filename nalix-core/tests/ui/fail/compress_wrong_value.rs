use nalix_core::packet;

#[packet(opcode = 0x1001, compress = "lz4")]
struct Algorithm(Vec<u8>);

#[packet(opcode = 0x1002, compress = -1)]
struct Negative(Vec<u8>);

#[packet(opcode = 0x1003, compress = 1_073_741_825)]
struct Longer(Vec<u8>);

#[packet(opcode = 0x1004, compress = true)]
struct Yes(Vec<u8>);

#[packet(opcode = 0x1005, compress =)]
struct Nothing(Vec<u8>);

#[packet(opcode = 0x1006, compress(1024))]
struct Parentheses(Vec<u8>);

fn main() {}
