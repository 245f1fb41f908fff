//! What `cfg` removes from the type is neither written nor read.

use nalix_core::{
    Wire, packet,
    wire::{from_slice, to_vec},
};

#[derive(Debug, PartialEq, Wire)]
struct Named {
    a: u8,
    #[cfg(any())]
    gone: Missing,
    #[cfg(all())]
    b: u8,
    #[cfg_attr(all(), wire(varint))]
    c: u32,
    #[cfg(all())]
    same: u8,
    #[cfg(any())]
    same: Missing,
}

#[derive(Debug, PartialEq, Wire)]
enum Choice {
    #[cfg(any())]
    Gone(Missing),
    A,
    B {
        #[cfg(any())]
        gone: Missing,
        b: u8,
    },
}

#[packet(opcode = 0x1001)]
#[derive(Debug, PartialEq)]
struct Packet {
    #[cfg(any())]
    gone: Missing,
    a: u8,
    #[cfg_attr(all(), wire(max_len = 2))]
    b: String,
}

#[cfg(any())]
#[packet(opcode = 0x1001)]
struct Gone;

#[cfg_attr(all(), packet(opcode = 0x1002))]
struct Conditional;

#[cfg_attr(any(), packet(opcode = 0x1003))]
struct NoPacket;

fn main() {
    let named = Named { a: 1, b: 2, c: 300, same: 3 };
    let bytes = to_vec(&named).unwrap();
    assert_eq!(bytes, [1, 2, 0xac, 2, 3]);
    assert_eq!(from_slice::<Named>(&bytes).unwrap(), named);
    assert_eq!(to_vec(&Choice::B { b: 7 }).unwrap(), [1, 7]);
    assert!(to_vec(&Packet { a: 1, b: "abc".into() }).is_err());
    assert_eq!(<Conditional as nalix_core::Packet>::OPCODE.get(), 0x1002);
    let _ = NoPacket;
}
