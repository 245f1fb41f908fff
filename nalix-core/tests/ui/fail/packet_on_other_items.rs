use nalix_core::packet;

#[packet(opcode = 0x1001)]
fn function() {}

#[packet(opcode = 0x1002)]
type Alias = u8;

#[packet(opcode = 0x1003)]
union Union {
    a: u8,
}

fn main() {}
