use nalix_core::Wire;

#[derive(Wire)]
struct Named {
    #[wire(since = 2)]
    a: u32,
    b: u32,
}

#[derive(Wire)]
struct Tuple(#[wire(since = 2)] u32, String);

fn main() {}
