use nalix_core::Wire;

#[derive(Wire)]
struct Named {
    name: &'static str,
    names: Vec<&'static str>,
}

fn main() {}
