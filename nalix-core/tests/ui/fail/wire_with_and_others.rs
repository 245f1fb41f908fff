use nalix_core::Wire;

mod codec {}

#[derive(Wire)]
struct Named {
    #[wire(with = codec, max_len = 4)]
    a: String,
    #[wire(with = codec, varint)]
    b: u32,
}

fn main() {}
