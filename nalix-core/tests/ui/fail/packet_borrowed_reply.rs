use nalix_core::packet;

#[packet(opcode = 0x1001, reply = &'static str, error = std::borrow::Cow<'a, str>)]
struct Named<'a> {
    a: &'a str,
}

#[packet(opcode = 0x1002, reply = Vec<&str>)]
struct Other;

fn main() {}
