use nalix_core::Wire;

#[derive(Wire)]
struct Named {
    a: u32,
    #[wire(since = 3)]
    b: u32,
    #[wire(since = 2)]
    c: u32,
}

fn main() {}
