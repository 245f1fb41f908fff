use nalix_core::Wire;

#[derive(Wire)]
struct Named {
    #[wire(varint)]
    name: String,
    #[wire(varint)]
    byte: u8,
}

fn main() {}
