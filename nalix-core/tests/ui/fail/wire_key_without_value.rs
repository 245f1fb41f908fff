use nalix_core::Wire;

#[derive(Wire)]
#[wire(rename)]
struct Named {
    #[wire(max_len)]
    name: String,
    #[wire(since =)]
    count: u32,
    #[wire(with)]
    other: u32,
}

fn main() {}
