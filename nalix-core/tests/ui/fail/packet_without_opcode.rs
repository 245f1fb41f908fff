use nalix_core::packet;

#[packet]
struct Empty;

#[packet(reply = u8)]
struct Named {
    a: u8,
}

fn main() {}
