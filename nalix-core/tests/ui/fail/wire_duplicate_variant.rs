use nalix_core::Wire;

#[derive(Wire)]
enum Choice {
    A,
    #[wire(rename = "A")]
    B,
}

fn main() {}
