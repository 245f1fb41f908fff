use nalix_core::Wire;

#[derive(Wire)]
struct Named {
    index: usize,
    offsets: Vec<isize>,
}

fn main() {}
