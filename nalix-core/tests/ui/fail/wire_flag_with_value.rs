use nalix_core::Wire;

#[derive(Wire)]
struct Named {
    #[wire(varint = true)]
    count: u32,
}

fn main() {}
