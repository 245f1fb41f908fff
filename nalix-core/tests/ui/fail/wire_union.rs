use nalix_core::Wire;

#[derive(Clone, Copy, Wire)]
union Number {
    whole: u32,
    real: f32,
}

fn uses(number: Number) -> impl nalix_core::wire::Encode {
    number
}

fn main() {}
