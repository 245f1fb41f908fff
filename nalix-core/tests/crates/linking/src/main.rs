//! Links a crate of packets without using anything of it, and says what the registry holds.

use contracts as _;
use nalix_core::{controller::discovered, registry::Registry};

fn main() {
    let registry = Registry::global().expect("no duplicates");
    for packet in registry.iter() {
        println!("{} {}", packet.opcode, packet.path);
    }
    for controller in discovered() {
        println!("{}", controller.path);
    }
}
