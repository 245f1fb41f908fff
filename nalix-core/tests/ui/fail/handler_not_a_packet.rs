use nalix_core::packet_controller;

struct Plain;

struct Game;

#[packet_controller]
impl Game {
    #[packet]
    fn plain(&self, _: Plain) {}

    #[packet]
    async fn number(&self, _: u8) -> u8 {
        1
    }
}

fn main() {}
