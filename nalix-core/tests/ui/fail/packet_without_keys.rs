use nalix_core::packet;

#[packet(0x1001)]
struct Named {
    a: u8,
}

fn main() {}
