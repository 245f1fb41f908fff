use nalix_core::Wire;

#[derive(Wire)]
struct Named {
    #[wire(since = 2, default = seven)]
    a: u32,
}

fn seven() -> u64 {
    7
}

fn main() {}
