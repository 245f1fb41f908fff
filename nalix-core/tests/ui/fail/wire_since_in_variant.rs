use nalix_core::Wire;

#[derive(Wire)]
enum Choice {
    A {
        a: u32,
        #[wire(since = 2)]
        b: u32,
    },
}

fn main() {}
