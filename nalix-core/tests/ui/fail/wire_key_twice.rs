use nalix_core::Wire;

#[derive(Wire)]
struct Named {
    #[wire(max_len = 256, max_len = 4)]
    name: String,
    #[wire(varint)]
    #[wire(varint)]
    count: u32,
}

fn main() {}
