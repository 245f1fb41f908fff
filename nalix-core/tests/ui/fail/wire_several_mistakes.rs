use nalix_core::Wire;

#[derive(Wire)]
#[wire(extensibel)]
struct Named {
    #[wire(varint, max_len = 3)]
    a: u32,
    #[wire(since = 3)]
    b: u32,
    #[wire(since = 2, rename = "a")]
    c: u32,
}

// Uses add nothing to the list.
fn bytes(named: &Named) -> Vec<u8> {
    nalix_core::wire::to_vec(named).unwrap()
}

fn main() {}
