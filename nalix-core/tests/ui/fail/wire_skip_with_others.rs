use nalix_core::Wire;

#[derive(Wire)]
struct Named {
    #[wire(skip, max_len = 4)]
    a: String,
    #[wire(varint, skip)]
    b: u32,
    #[wire(skip, since = 2)]
    c: u32,
    #[wire(skip, rename = "e")]
    d: u32,
}

fn main() {}
