use nalix_core::packet;

struct Game;

impl Game {
    #[packet]
    fn ping(&self) {}
}

fn main() {}
