use nalix_core::packet_controller;

#[packet_controller]
struct Game;

fn main() {}
