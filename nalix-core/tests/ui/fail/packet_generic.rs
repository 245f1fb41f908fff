use nalix_core::packet;

#[packet(opcode = 0x1001)]
struct Generic<T> {
    value: T,
}

#[packet(opcode = 0x1002, reply = u8)]
struct Sized<'a, const N: usize> {
    bytes: [u8; N],
    text: &'a str,
}

fn main() {}
