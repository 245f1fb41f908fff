use nalix_core::Wire;

#[derive(Wire)]
struct Inner {
    a: u32,
}

#[derive(Wire)]
struct Named {
    #[wire(since = 2)]
    inner: Inner,
}

fn main() {}
