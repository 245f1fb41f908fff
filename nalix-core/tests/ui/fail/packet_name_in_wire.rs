use nalix_core::packet;

#[packet(opcode = 0x1001)]
#[wire(rename = "Other")]
struct Named {
    a: u8,
}

fn main() {}
