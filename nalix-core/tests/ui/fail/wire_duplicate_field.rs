use nalix_core::Wire;

#[derive(Wire)]
struct Named {
    a: u32,
    #[wire(rename = "a")]
    b: u32,
    #[wire(rename = "d")]
    c: u32,
    d: u32,
}

fn main() {}
