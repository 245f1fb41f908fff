//! `encrypt` goes on every kind of packet and on every kind of handler, with every other key.

use std::sync::Arc;

use nalix_core::{Context, Packet, State, Wire, controller::Router, packet, packet_controller};

#[packet(opcode = 0x1001, reply = Welcome, error = LoginError, exact, encrypt, rename = "sign-in")]
struct Login<'a> {
    user: &'a str,
    #[wire(max_len = 64)]
    password: &'a str,
}

#[derive(Wire)]
struct Welcome;

#[derive(Wire)]
enum LoginError {
    BadPassword,
}

#[packet(encrypt, opcode = 0x1002)]
struct Whisper(String);

#[packet(opcode = 0x1003, encrypt)]
enum Order {
    Buy(u32),
    Sell { amount: u32 },
}

/// Marked on its handler only.
#[packet(opcode = 0x1004, reply = u8)]
struct Handled;

#[packet(opcode = 0x1005)]
struct HandledLater;

#[packet(opcode = 0x1006)]
struct Open;

#[packet(opcode = 0x1007, reply = u8, encrypt)]
struct Generic;

struct Bank;

#[packet_controller]
impl Bank {
    #[packet(encrypt)]
    async fn login(&self, login: Login<'_>) -> Result<Welcome, LoginError> {
        match login.user == login.password {
            true => Ok(Welcome),
            false => Err(LoginError::BadPassword),
        }
    }

    #[packet(lane = "whispers")]
    fn whisper(&self, _: &Context, _: State<u8>, Whisper(_): Whisper) {}

    #[packet]
    fn order(self: Arc<Self>, order: Order) {
        match order {
            Order::Buy(n) | Order::Sell { amount: n } => drop(n),
        }
    }

    #[packet(concurrent, blocking, encrypt)]
    fn handled(&self, _: Handled) -> u8 {
        1
    }

    #[packet(encrypt, spawn, lane = "later")]
    async fn handled_later(&self, _: HandledLater) {}

    #[packet]
    fn open(&self, _: Open) {}
}

struct Shelf<T>(T);

#[packet_controller]
impl<T> Shelf<T> {
    #[packet(encrypt)]
    fn generic(&self, _: Generic) -> u8 {
        1
    }
}

const _: () = {
    assert!(Login::ENCRYPT && Whisper::ENCRYPT && Order::ENCRYPT && Generic::ENCRYPT);
    assert!(!Handled::ENCRYPT && !HandledLater::ENCRYPT && !Open::ENCRYPT);
    assert!(Login::EXACT && !Whisper::EXACT);
};

fn main() {
    let mut router = Router::builder();
    router.state(0u8);
    router.add(Bank);
    router.add(Shelf(0u8));
    let router = router.build().unwrap();
    let sealed: Vec<_> = router.handlers().filter(|spec| spec.encrypt).map(|spec| spec.opcode.get()).collect();
    assert_eq!(sealed, [0x1001, 0x1002, 0x1003, 0x1004, 0x1005, 0x1007]);
    for spec in router.handlers() {
        assert_eq!(router.route(spec.opcode).unwrap().needs_sealing(), spec.encrypt, "{}", spec.name);
    }
}
