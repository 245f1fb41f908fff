use nalix_core::packet;

#[packet(opcode = 0x1001, reply = u8)]
struct Ask;

#[packet(opcode = 0x1002)]
struct Tell;

struct Plain;

fn request<R: nalix_core::Request>(_: R) {}
fn send<P: nalix_core::OneWay>(_: P) {}

fn check() {
    request(Ask);
    request(Tell);
    send(Ask);
    send(Tell);
    send(Plain);
}

fn main() {}
