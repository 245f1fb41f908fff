//! Every key, with literals, constants and paths.

use nalix_core::{
    Context, Permission, Status,
    controller::{Check, Router},
    packet, packet_controller,
};

const LEVEL: Permission = Permission::new(120);
const LENGTH: usize = 64;
const BURST: u32 = 20;

#[packet(opcode = 0x1001, reply = u8, permission = LEVEL, max_size = LENGTH)]
struct Ping(u8);

#[packet(opcode = 0x1002, permission = 0)]
struct Moved(u8);

struct Weekday;

impl Check for Weekday {
    fn check(&self, _: &Context) -> Result<(), Status> {
        Ok(())
    }
}

fn always(_: &Context) -> Result<(), Status> {
    Ok(())
}

struct Game;

#[packet_controller]
impl Game {
    #[packet(
        permission = Permission::USER,
        check = Weekday,
        rate = "100/5min",
        burst = BURST,
        cost = 2,
        key = identity,
        concurrency = LENGTH,
        queue = 0x10,
        wait = "500ms",
        timeout = "1min",
        transport = ["tcp", "websocket", "udp", "memory"],
        max_size = LENGTH / 2,
        breaker = 5,
        cool_down = "1h",
        lane = "game"
    )]
    async fn ping(&self, Ping(n): Ping) -> u8 {
        n
    }

    #[packet(check = always, rate = "1/d", key = address, transport = "udp")]
    fn moved(&self, _: Moved) {}
}

fn main() {
    let mut router = Router::builder();
    router.add(Game);
    let router = router.build().unwrap();
    let ping = &router.handlers().next().unwrap().policy;
    assert_eq!(ping.permission, Some(LEVEL), "the packet asks for more");
    assert_eq!(ping.max_size, Some(32), "the handler takes less");
    assert_eq!(ping.rate.unwrap().rate.burst(), 20);
}
