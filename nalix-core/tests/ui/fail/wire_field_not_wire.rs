use nalix_core::Wire;

struct Plain;

#[derive(Wire)]
struct Named {
    plain: Plain,
}

#[derive(Wire)]
enum Choice {
    A(Vec<Plain>),
}

fn main() {}
