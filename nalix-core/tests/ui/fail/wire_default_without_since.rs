use nalix_core::Wire;

#[derive(Wire)]
struct Named {
    #[wire(default)]
    a: u32,
    #[wire(default = seven)]
    b: u32,
}

fn seven() -> u32 {
    7
}

fn main() {}
