use nalix_core::packet;

#[packet(opcode = 3, error = u8, replay = u8)]
struct Named {
    #[wire(varint, max_len = 3)]
    a: u32,
}

// Uses add nothing to the list.
fn opcode() -> nalix_core::Opcode {
    <Named as nalix_core::Packet>::OPCODE
}

fn main() {}
