use nalix_core::packet_controller;

struct Game;

#[packet_controller]
impl Game {
    fn helper(&self) {}
}

fn main() {}
