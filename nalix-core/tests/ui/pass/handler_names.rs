//! Handlers may be called anything: generated code calls them by their path.

use nalix_core::{Context, packet, packet_controller};

macro_rules! packets {
    ($($name:ident $opcode:literal)*) => {$(
        #[packet(opcode = $opcode, reply = u16)]
        struct $name;
    )*};
}

packets! {
    P0 0x2000 P1 0x2001 P2 0x2002 P3 0x2003 P4 0x2004 P5 0x2005 P6 0x2006 P7 0x2007
    P8 0x2008 P9 0x2009 P10 0x200a P11 0x200b P12 0x200c P13 0x200d P14 0x200e
}

#[derive(Clone)]
struct Game;

impl Drop for Game {
    fn drop(&mut self) {}
}

#[packet_controller]
impl Game {
    #[packet]
    fn new(&self, _: P0) -> u16 {
        0
    }
    #[packet]
    fn connect(&self, _: P1) -> u16 {
        1
    }
    #[packet]
    async fn call(&self, _: P2) -> u16 {
        2
    }
    #[packet]
    fn clone(&self, _: P3) -> u16 {
        3
    }
    #[packet]
    async fn poll_ready(&self, _: P4) -> u16 {
        4
    }
    #[packet]
    fn into_inner(&self, _: P5) -> u16 {
        5
    }
    #[packet]
    fn serve(&self, _: P6) -> u16 {
        6
    }
    #[packet]
    fn close(&self, _: P7) -> u16 {
        7
    }
    #[packet]
    fn drop(&self, _: P8) -> u16 {
        8
    }
    #[packet]
    fn send(&self, _: P9) -> u16 {
        9
    }
    #[packet]
    fn register(&self, _: P10) -> u16 {
        10
    }
    #[packet]
    fn connected(&self, _: P11) -> u16 {
        11
    }
    #[packet]
    fn disconnected(&self, _: &Context, _: P12) -> u16 {
        12
    }
    #[packet]
    fn deref(&self, _: P13) -> u16 {
        13
    }
    #[packet]
    fn respond(&self, _: P14) -> u16 {
        14
    }
}

fn main() {
    let mut router = nalix_core::controller::Router::builder();
    router.add(Game);
    assert_eq!(router.build().unwrap().handlers().len(), 15);
}
