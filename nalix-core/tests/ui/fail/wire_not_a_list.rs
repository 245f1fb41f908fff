use nalix_core::Wire;

#[derive(Wire)]
struct Named {
    #[wire = "varint"]
    a: u32,
    #[wire]
    b: u32,
    #[wire("varint")]
    c: u32,
    #[wire(varint max_len = 3)]
    d: u32,
}

fn main() {}
