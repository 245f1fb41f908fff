use nalix_core::Wire;

struct Plain;

#[derive(Wire)]
struct Wrapper<T> {
    value: T,
}

fn is_wire<T: nalix_core::Wire>() {}

fn check() {
    is_wire::<Wrapper<u8>>();
    is_wire::<Wrapper<Plain>>();
}

fn main() {}
