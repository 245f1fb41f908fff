//! `#[derive(Wire)]`: every form of type, every attribute.

use nalix_core::{
    Wire,
    wire::{from_slice, to_vec},
};

#[derive(Debug, Clone, PartialEq, Wire)]
struct Named {
    a: u8,
    #[wire(max_len = 4)]
    b: String,
    #[wire(varint)]
    c: u32,
}

#[derive(Debug, Clone, PartialEq, Wire)]
enum Choice {
    A,
    B(u8, String),
    C { x: i32 },
}

#[test]
fn smoke() {
    let v = Named { a: 1, b: "abc".into(), c: 300 };
    let bytes = to_vec(&v).unwrap();
    assert_eq!(bytes, [1, 3, b'a', b'b', b'c', 0xac, 2]);
    assert_eq!(from_slice::<Named>(&bytes).unwrap(), v);
    for v in [Choice::A, Choice::B(1, "x".into()), Choice::C { x: -1 }] {
        assert_eq!(from_slice::<Choice>(&to_vec(&v).unwrap()).unwrap(), v);
    }
}
