//! `#[packet_controller]`: handlers called through a router, with every form of argument and return.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    future::Future,
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    task::{Poll, Waker},
};

use bytes::Bytes;
use nalix_core::{
    CloseCode, CloseReason, Code, Context, Failure, Packet, State, Status, Wire,
    connection::{Driver, Options, Serving, accept, connect},
    controller::{
        Call, CallKind, Controller, Order, Outcome, Reply, ReplyBuffer, ReplyKind, Router, RouterError, Run,
    },
    handshake::{ClientSecurity, Contracts, ServerSecurity},
    link::memory,
    packet, packet_controller,
    wire::{Decode, Encode, Limits, from_slice, to_vec},
};

#[packet(opcode = 0x1001, reply = Pong, error = Refused)]
struct Ping {
    text: String,
}

#[derive(Debug, PartialEq, Wire)]
struct Pong {
    text: String,
}

#[derive(Debug, PartialEq, Wire)]
enum Refused {
    Empty,
    Long(u32),
}

#[packet(opcode = 0x1002, reply = i32)]
struct Sum {
    a: i32,
    b: i32,
}

#[packet(opcode = 0x1003, reply = u32)]
struct Checksum<'a> {
    data: &'a [u8],
    label: &'a str,
}

#[packet(opcode = 0x1004)]
struct Moved(u8);

#[packet(opcode = 0x1005, reply = ())]
struct Touch;

#[packet(opcode = 0x1006, reply = Result<u8, String>)]
struct Try;

#[packet(opcode = 0x1007, reply = u8)]
struct Count;

#[packet(opcode = 0x1008)]
struct Panicking;

#[packet(opcode = 0x1009, reply = u8, exact)]
struct Strict;

#[derive(Default)]
struct Game {
    moves: Mutex<Vec<u8>>,
    seen: AtomicU32,
}

#[packet_controller]
impl Game {
    #[packet]
    async fn ping(&self, ping: Ping) -> Result<Pong, Failure<Refused>> {
        match ping.text.len() {
            0 => Err(Refused::Empty)?,
            n @ 5.. => Err(Refused::Long(n as u32))?,
            4 => Err(Status::not_found("four"))?,
            _ => {}
        }
        tokio::task::yield_now().await;
        Ok(Pong { text: ping.text })
    }

    #[packet]
    fn sum(&self, Sum { a, b }: Sum) -> i32 {
        a + b
    }

    #[packet(concurrent)]
    async fn checksum<'a>(
        self: Arc<Self>,
        ctx: &'a Context,
        mut packet: Checksum<'a>,
    ) -> Result<u32, Status> {
        assert_eq!(ctx.opcode(), Checksum::OPCODE);
        if packet.label.is_empty() {
            return Err(Status::invalid_argument("label"));
        }
        packet.data = &packet.data[1..];
        Ok(packet.data.iter().map(|&b| u32::from(b)).sum())
    }

    #[packet(lane = "moves")]
    fn moved(&self, ctx: Context, Moved(to): Moved) {
        assert_eq!(ctx.opcode(), Moved::OPCODE);
        self.moves.lock().unwrap().push(to);
    }

    #[packet(lane = "moves")]
    async fn touch(self: &Arc<Self>, State(_): State<String>, _: Touch) -> Result<(), Status> {
        Ok(())
    }

    #[packet(blocking)]
    fn try_it(&self, _: Try) -> Result<u8, String> {
        Err("a reply, not a failure".into())
    }

    #[packet(spawn)]
    async fn count(&self, State(count): State<AtomicU32>, _: &Context, _: Count) -> u8 {
        count.fetch_add(1, Ordering::Relaxed) as u8
    }

    #[packet]
    fn panicking(&self, _: Panicking) -> ! {
        panic!("on purpose")
    }

    #[packet]
    fn strict(&self, _: Strict) -> u8 {
        1
    }

    #[connected]
    async fn hello(&self, _: &Context) {
        self.seen.fetch_add(1, Ordering::Relaxed);
    }

    #[disconnected]
    fn bye(self: &Arc<Self>, _: &Context, why: &CloseReason) {
        assert_eq!(why.code, CloseCode::Normal);
        self.seen.fetch_add(10, Ordering::Relaxed);
    }
}

fn router() -> Router {
    let mut builder = Router::builder();
    builder.add(Game::default());
    builder.state(AtomicU32::new(7));
    builder.state(String::new());
    builder.build().unwrap()
}

/// The context of a connection whose driver never runs.
async fn context(router: &Router) -> Context {
    let (one, other) = memory::pair(1024);
    let contracts = || Contracts::from_packets([]);
    let options = Options::default();
    let (_, accepted) = tokio::join!(
        connect(one, contracts(), &ClientSecurity::Plaintext, &options),
        accept(other, contracts(), &ServerSecurity::Plaintext, &options)
    );
    let (connection, _) = Driver::new(accepted.unwrap(), Serving::from(Router::empty()), &options);
    Context::new(connection, Arc::clone(router.states()), Limits::DEFAULT)
}

async fn call_of<P: Packet>(router: &Router, payload: Vec<u8>) -> Call {
    let context = context(router).await.for_call(P::OPCODE, None);
    let route = router.route(P::OPCODE).unwrap();
    Call::new(CallKind::Request, route, context, Bytes::from(payload), ReplyBuffer::unbounded())
}

async fn call<P: Packet + Encode>(router: &Router, packet: P) -> Reply {
    match router.dispatch(call_of::<P>(router, to_vec(&packet).unwrap()).await) {
        Outcome::Ready(reply) => reply,
        Outcome::Pending(future) => future.await,
    }
}

fn value<T: for<'de> Decode<'de>>(reply: &Reply) -> T {
    assert_eq!(reply.kind(), &ReplyKind::Value);
    from_slice(reply.body()).unwrap()
}

#[tokio::test]
async fn replies() {
    let router = router();
    let pong = call(&router, Ping { text: "hi".into() }).await;
    assert_eq!(value::<Pong>(&pong), Pong { text: "hi".into() });
    assert_eq!(value::<i32>(&call(&router, Sum { a: 1, b: 2 }).await), 3);
    assert_eq!(value::<u32>(&call(&router, Checksum { data: &[9, 1, 2], label: "l" }).await), 3);
    assert_eq!(call(&router, Moved(1)).await.kind(), &ReplyKind::Nothing);
    value::<()>(&call(&router, Touch).await);
    let reply = value::<Result<u8, String>>(&call(&router, Try).await);
    assert_eq!(reply, Err("a reply, not a failure".into()));
    assert_eq!(value::<u8>(&call(&router, Count).await), 7);
    assert_eq!(value::<u8>(&call(&router, Count).await), 8);
}

#[tokio::test]
async fn failures() {
    let router = router();
    let reply = call(&router, Ping { text: String::new() }).await;
    assert_eq!(reply.kind(), &ReplyKind::Application);
    assert_eq!(from_slice::<Refused>(reply.body()).unwrap(), Refused::Empty);
    let reply = call(&router, Ping { text: "12345".into() }).await;
    assert_eq!(from_slice::<Refused>(reply.body()).unwrap(), Refused::Long(5));
    let reply = call(&router, Ping { text: "1234".into() }).await;
    assert_eq!(reply.status().unwrap().code, Code::NotFound);
    let reply = call(&router, Checksum { data: &[], label: "" }).await;
    assert_eq!(reply.status().unwrap().code, Code::InvalidArgument);
}

#[tokio::test]
async fn payloads_that_do_not_decode() {
    let router = router();
    for payload in [vec![], vec![1, 2, 3]] {
        let Outcome::Ready(reply) = router.dispatch(call_of::<Sum>(&router, payload).await) else {
            panic!("sync")
        };
        let status = reply.status().unwrap();
        assert_eq!(status.code, Code::Malformed);
        assert!(status.message.contains("Sum"), "{status}");
    }
    let Outcome::Pending(future) = router.dispatch(call_of::<Checksum<'_>>(&router, vec![9]).await) else {
        panic!("async")
    };
    assert_eq!(future.await.status().unwrap().code, Code::Malformed);
    // What a newer peer adds is ignored, unless the packet is exact.
    let Outcome::Ready(reply) = router.dispatch(call_of::<Sum>(&router, vec![1; 9]).await) else {
        panic!("sync")
    };
    assert_eq!(reply.kind(), &ReplyKind::Value);
    let Outcome::Ready(reply) = router.dispatch(call_of::<Strict>(&router, vec![1]).await) else {
        panic!("sync")
    };
    assert_eq!(reply.status().unwrap().code, Code::Malformed);
}

#[tokio::test]
async fn handlers_that_are_not_async_finish_at_once() {
    let router = router();
    let call = call_of::<Sum>(&router, to_vec(&Sum { a: 1, b: 1 }).unwrap()).await;
    assert!(matches!(router.dispatch(call), Outcome::Ready(_)));
    let call = call_of::<Ping>(&router, to_vec(&Ping { text: "a".into() }).unwrap()).await;
    let Outcome::Pending(mut future) = router.dispatch(call) else { panic!("async") };
    let mut cx = std::task::Context::from_waker(Waker::noop());
    assert!(future.as_mut().poll(&mut cx).is_pending(), "it yields once");
    assert!(matches!(future.as_mut().poll(&mut cx), Poll::Ready(_)));
}

#[tokio::test]
#[should_panic(expected = "on purpose")]
async fn panics_are_not_caught_here() {
    let router = router();
    router.dispatch(call_of::<Panicking>(&router, vec![]).await);
}

#[test]
fn specs() {
    let router = router();
    let spec = |name: &str| router.handlers().find(|spec| spec.name == name).unwrap();
    let ping = spec("Game::ping");
    assert_eq!((ping.opcode, ping.packet), (Ping::OPCODE, "Ping"));
    assert_eq!((ping.order, ping.run), (Order::Connection, Run::Inline));
    assert_eq!(spec("Game::checksum").order, Order::Concurrent);
    assert_eq!(spec("Game::moved").order, Order::Lane("moves"));
    assert_eq!(spec("Game::try_it").run, Run::Blocking);
    assert_eq!(spec("Game::count").run, Run::Spawn);
    assert_eq!(Game::NAME, "Game");
    assert_eq!(router.route(Moved::OPCODE).unwrap().lane(), router.route(Touch::OPCODE).unwrap().lane());
    let source = include_str!("macro_controller.rs");
    let line = source.lines().position(|line| line.contains("async fn count")).unwrap() + 1;
    assert_eq!(spec("Game::count").location.line as usize, line, "the line of the method");
    assert!(spec("Game::count").location.file.ends_with("macro_controller.rs"));
}

#[tokio::test]
async fn hooks() {
    let game = Arc::new(Game::default());
    let router = router();
    let ctx = context(&router).await;
    let mut cx = std::task::Context::from_waker(Waker::noop());
    let hello = game.connected(&ctx).unwrap();
    assert!(pin!(hello).poll(&mut cx).is_ready());
    assert_eq!(game.seen.load(Ordering::Relaxed), 1);
    let why = CloseReason::new(CloseCode::Normal, "");
    let bye = game.disconnected(&ctx, &why).unwrap();
    assert!(pin!(bye).poll(&mut cx).is_ready());
    assert_eq!(game.seen.load(Ordering::Relaxed), 11);
    assert!(Arc::new(Other).connected(&ctx).is_none());
    assert_eq!((router.connected_from(0, &ctx).len(), router.disconnected(&ctx, &why).len()), (1, 1));
}

/// Serves an opcode that `Game` serves too, and has no `Default`.
struct Other;

#[packet_controller]
impl Other {
    #[packet]
    fn another_sum(&self, _: Sum) -> i32 {
        0
    }
}

#[test]
fn two_controllers_with_one_opcode() {
    let mut messages = Vec::new();
    for swapped in [false, true] {
        let mut builder = Router::builder();
        builder.state(AtomicU32::new(0));
        builder.state(String::new());
        if swapped {
            builder.add(Other);
            builder.add(Game::default());
        } else {
            builder.add(Game::default());
            builder.add(Other);
        }
        let error = builder.build().unwrap_err();
        let RouterError::Duplicate(duplicate) = &error else { panic!("{error}") };
        assert_eq!((&*duplicate.first, &*duplicate.second), ("Game::sum", "Other::another_sum"));
        assert!(duplicate.first_at.contains("macro_controller.rs:"), "{error}");
        assert_ne!(duplicate.first_at, duplicate.second_at);
        messages.push(error.to_string());
    }
    assert_eq!(messages[0], messages[1]);
}

#[test]
fn states_that_are_missing() {
    let mut builder = Router::builder();
    builder.add(Game::default());
    builder.state(AtomicU32::new(0));
    let error = builder.build().unwrap_err();
    assert!(matches!(error, RouterError::MissingState { handler: "Game::touch", .. }), "{error}");
}

#[test]
fn controllers_with_a_default_are_discovered() {
    let mut builder = Router::builder();
    builder.discover();
    builder.state(AtomicU32::new(0));
    builder.state(String::new());
    let router = builder.build().unwrap();
    assert_eq!(router.handlers().len(), 9, "those of `Game`");
    let discovered = nalix_core::controller::discovered();
    let paths: Vec<_> = discovered.iter().map(|info| info.path).collect();
    assert_eq!(paths, ["macro_controller::Game", "macro_controller::Other"]);
}
