use nalix_core::packet;

#[packet(opcode = 0x1001, rename = "")]
struct Named {
    #[wire(rename = "")]
    a: u8,
}

fn main() {}
