//! `crate = path` says where `nalix_core` is.

mod facade {
    pub use nalix_core as realtime;
}

#[derive(nalix_core::Wire)]
#[wire(crate = facade::realtime, rename = "Point3")]
struct Point {
    x: f32,
    #[wire(max_len = 3, since = 2)]
    tags: Vec<String>,
}

#[nalix_core::packet(opcode = 0x1001, reply = Point, crate = crate::facade::realtime)]
struct Where;

struct Game;

#[nalix_core::packet_controller(crate = facade::realtime)]
impl Game {
    #[packet]
    fn at(&self, _: Where) -> Point {
        Point { x: 1.0, tags: Vec::new() }
    }
}

fn main() {
    let _ = Game;
}
