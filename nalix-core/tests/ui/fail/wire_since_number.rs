use nalix_core::Wire;

const VERSION: u32 = 2;

#[derive(Wire)]
struct Named {
    #[wire(since = 1)]
    a: u32,
    #[wire(since = VERSION)]
    b: u32,
    #[wire(since = "2")]
    c: u32,
}

fn main() {}
