//! Finding the handler of an opcode.

use std::hint::black_box;

use divan::{Bencher, counter::ItemsCount};
use nalix_core::{Opcode, controller::Router};
use nalix_server::{packet, packet_controller};

#[packet(opcode = 0x1010, reply = ())]
struct First;

#[packet(opcode = 0x7fff, reply = ())]
struct Last;

struct Two;

#[packet_controller]
impl Two {
    #[packet]
    fn first(&self, _: First) {}

    #[packet]
    fn last(&self, _: Last) {}
}

#[divan::bench(threads = [1, 2])]
fn route_1000(bencher: Bencher<'_, '_>) {
    let mut router = Router::builder();
    router.add(Two);
    let router = router.build().unwrap();
    let opcodes = [Opcode::new(0x1010), Opcode::new(0x7fff), Opcode::new(0x5000)];
    bencher.counter(ItemsCount::new(1_000_usize)).bench(|| {
        for n in 0..1_000 {
            black_box(router.route(black_box(opcodes[n % 3])));
        }
    });
}
