use nalix_core::Wire;

#[derive(Wire)]
#[wire(max_len = 4)]
struct Named {
    #[wire(max_length = 256)]
    name: String,
    #[wire(skipped, varint)]
    count: u32,
}

#[derive(Wire)]
enum Choice {
    #[wire(since = 2)]
    A,
}

fn main() {}
