use nalix_core::Wire;

#[derive(Wire)]
struct Named {
    #[wire(max_len = 4)]
    count: u32,
}

fn main() {}
