//! User code that panics: its caller is told, without the text, and nobody else notices.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{
    future::IntoFuture,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use nalix_core::{
    CloseCode, CloseReason, Code, RequestError,
    error::DecodeError,
    schema::{Describe, SchemaBuilder, Type},
    wire::{Decode, Encode, Reader, Writer},
};
use nalix_server::{Context, Options, packet, packet_controller};

use support::{Both, Live, RawPeer, cancel, request, soon};

/// Where to panic.
#[packet(opcode = 0x1001, reply = u32)]
struct Sync(bool);
#[packet(opcode = 0x1002, reply = u32)]
struct Async {
    before: bool,
    after: bool,
}
#[packet(opcode = 0x1003, reply = u32)]
struct Spawned {
    before: bool,
    after: bool,
}
#[packet(opcode = 0x1004, reply = u32)]
struct Blocking(bool);
#[packet(opcode = 0x1005, reply = Explosive)]
struct BadReply;
#[packet(opcode = 0x1006, reply = u32)]
struct BadPacket(Explosive);
#[packet(opcode = 0x1007, reply = u32)]
struct BadDrop;
#[packet(opcode = 0x1008)]
struct OneWay(bool);
/// Never ends, and panics when it is dropped.
#[packet(opcode = 0x1009, reply = ())]
struct NeverEnds;
#[packet(opcode = 0x100a, reply = ())]
struct BadPayload;
#[packet(opcode = 0x100b, reply = ())]
struct Never;

/// Panics when it is encoded, and when it is decoded.
#[derive(Debug, PartialEq)]
struct Explosive;

impl Encode for Explosive {
    fn encode(&self, w: &mut Writer<'_>) {
        w.put_u8(1);
        panic!("{SECRET}");
    }
}

impl Decode<'_> for Explosive {
    fn decode(_: &mut Reader<'_>) -> Result<Self, DecodeError> {
        panic!("{SECRET}");
    }
}

impl Describe for Explosive {
    fn describe(builder: &mut SchemaBuilder) -> Type {
        u8::describe(builder)
    }
}

const SECRET: &str = "the password is 12345";

struct PanicsOnDrop(Live);

impl Drop for PanicsOnDrop {
    fn drop(&mut self) {
        drop(self.0.enter());
        panic!("{SECRET}");
    }
}

#[derive(Default, Clone)]
struct Bomb {
    live: Live,
    dropped: Live,
    handled: Live,
    connect: Option<Arc<AtomicBool>>,
    disconnected: Live,
}

impl Bomb {
    async fn explode(&self, before: bool, after: bool) -> u32 {
        let _guard = self.live.enter();
        assert!(!before, "{SECRET}");
        tokio::task::yield_now().await;
        assert!(!after, "{SECRET}");
        7
    }
}

#[packet_controller]
impl Bomb {
    #[packet]
    fn sync(&self, Sync(panic): Sync) -> u32 {
        assert!(!panic, "{SECRET}");
        7
    }
    #[packet]
    async fn asynchronous(&self, Async { before, after }: Async) -> u32 {
        self.explode(before, after).await
    }
    #[packet(spawn)]
    async fn spawned(&self, Spawned { before, after }: Spawned) -> u32 {
        self.explode(before, after).await
    }
    #[packet(blocking)]
    fn blocking(&self, Blocking(panic): Blocking) -> u32 {
        assert!(!panic, "{SECRET}");
        7
    }
    #[packet]
    async fn bad_reply(&self, _: BadReply) -> Explosive {
        tokio::task::yield_now().await;
        Explosive
    }
    #[packet]
    fn bad_packet(&self, _: BadPacket) -> u32 {
        7
    }
    #[packet]
    async fn bad_drop(&self, _: BadDrop) -> u32 {
        let _bomb = PanicsOnDrop(self.dropped.clone());
        tokio::task::yield_now().await;
        7
    }
    #[packet]
    fn one_way(&self, OneWay(panic): OneWay) {
        assert!(!panic, "{SECRET}");
        drop(self.handled.enter());
    }
    #[packet(concurrent)]
    async fn never_ends(&self, _: NeverEnds) {
        let _guard = self.live.enter();
        let _bomb = PanicsOnDrop(self.dropped.clone());
        std::future::pending::<()>().await;
    }
    #[packet(concurrent)]
    async fn never(&self, _: Never) {
        let _guard = self.live.enter();
        std::future::pending::<()>().await;
    }
    #[packet]
    fn bad_payload(&self, _: BadPayload) {
        std::panic::panic_any(PanicsOnDrop(self.dropped.clone()));
    }

    #[connected]
    async fn connected(&self, _: &Context) {
        if let Some(panic) = &self.connect {
            tokio::task::yield_now().await;
            assert!(!panic.load(Ordering::Relaxed), "{SECRET}");
        }
    }

    #[disconnected]
    fn disconnected(&self, _: &Context, _: &CloseReason) {
        drop(self.disconnected.enter());
        assert!(self.connect.is_none(), "{SECRET}");
    }
}

fn check<T: std::fmt::Debug, E: std::fmt::Debug>(result: Result<T, RequestError<E>>, what: &str) {
    match result {
        Err(RequestError::Status(status)) => {
            assert_eq!(status.code, Code::Internal, "{what}");
            assert!(!status.message.contains("password"), "{what}: {status}");
        }
        other => panic!("{what}: {other:?}"),
    }
}

#[tokio::test]
async fn a_handler_that_panics_fails_its_call_alone() {
    let bomb = Bomb::default();
    let session = Both::new(bomb.clone()).await.client().await;
    let neighbour = tokio::spawn(session.request(Never).into_future());
    bomb.live.is(1).await;
    for round in 0..10 {
        check(session.request(Sync(true)).await, "sync");
        check(session.request(Async { before: true, after: false }).await, "before await");
        check(session.request(Async { before: false, after: true }).await, "after await");
        check(session.request(Spawned { before: true, after: false }).await, "spawned, before await");
        check(session.request(Spawned { before: false, after: true }).await, "spawned, after await");
        check(session.request(Blocking(true)).await, "blocking");
        check(session.request(BadReply).await, "the reply's encode");
        check(session.request(BadDrop).await, "a destructor");
        check(session.request(BadPayload).await, "a panic whose payload panics");
        session.send(&OneWay(true)).await.unwrap();
        session.send(&OneWay(false)).await.unwrap();
        // The lane goes on, and so do all kinds of handlers.
        assert_eq!(session.request(Sync(false)).await, Ok(7));
        assert_eq!(session.request(Async { before: false, after: false }).await, Ok(7));
        assert_eq!(session.request(Spawned { before: false, after: false }).await, Ok(7));
        assert_eq!(session.request(Blocking(false)).await, Ok(7));
        assert_eq!(bomb.handled.entered(), round + 1);
    }
    assert!(!neighbour.is_finished());
    assert_eq!(bomb.live.count(), 1);
    assert_eq!(session.connection().calls_in_flight(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_packet_whose_decode_panics_fails_its_call_alone() {
    let both = Both::new(Bomb::default()).await;
    let mut peer = RawPeer::connect(&both.server).await;
    peer.send(&[request(3, 0x1006, b"\x01"), request(4, 0x1001, b"\0")]).await;
    let status = peer.status(3).await;
    assert_eq!(status.code, Code::Internal);
    assert!(!status.message.contains("password"));
    peer.reply(4).await;
}

/// A request that cannot be encoded since that panics: the panic is its caller's, and leaves nothing behind.
#[tokio::test(start_paused = true)]
async fn a_request_whose_encode_panics_leaves_nothing_behind() {
    let mut options = Options::default();
    options.max_calls = 1;
    let session = Both::with(Bomb::default(), options).await.client().await;
    for _ in 0..5 {
        let first = tokio::spawn(session.request(Sync(false)).into_future());
        let bad = tokio::spawn(session.request(BadPacket(Explosive)).into_future());
        // This one has to be woken by the one that panicked.
        let waiting = tokio::spawn(session.request(Sync(false)).into_future());
        assert_eq!(soon(first).await.unwrap(), Ok(7));
        assert!(soon(bad).await.unwrap_err().is_panic());
        let start = tokio::time::Instant::now();
        assert_eq!(soon(waiting).await.unwrap(), Ok(7));
        assert!(start.elapsed() < Duration::from_secs(1));
    }
    assert_eq!(session.connection().calls_in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn destructors_that_panic_do_not_keep_a_cancel_from_its_answer() {
    let bomb = Bomb::default();
    let both = Both::new(bomb.clone()).await;
    let mut peer = RawPeer::connect(&both.server).await;
    for n in 1..=5 {
        peer.send(&[request(0, 0x1009, b"")]).await;
        bomb.live.is(1).await;
        peer.send(&[cancel(0)]).await;
        assert_eq!(peer.status(0).await.code, Code::Cancelled);
        bomb.dropped.has_entered(n).await;
    }
    peer.ping().await;
}

/// Many destructors that panic at once: each is caught by itself, also when the whole connection goes.
#[tokio::test(start_paused = true)]
async fn destructors_that_panic_when_a_connection_ends_take_nothing_with_them() {
    for forced in [false, true] {
        let bomb = Bomb::default();
        let both = Both::new(bomb.clone()).await;
        let mut peer = RawPeer::connect(&both.server).await;
        let calls: Vec<_> = (0..10).map(|id| request(id, 0x1009, b"")).collect();
        peer.send(&calls).await;
        bomb.live.is(10).await;
        if forced {
            both.server_end().await.drain(Duration::ZERO);
            both.server_end().await.close();
        } else {
            drop(peer);
        }
        bomb.live.is(0).await;
        assert_eq!(bomb.dropped.entered(), 10);
        both.server_is_empty().await;
        bomb.disconnected.has_entered(1).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_whose_hook_panics_is_closed_and_others_are_not() {
    let panic = Arc::new(AtomicBool::new(true));
    let bomb = Bomb { connect: Some(Arc::clone(&panic)), ..Bomb::default() };
    let both = Both::new(bomb.clone()).await;
    for n in 1..=3 {
        let mut peer = RawPeer::silent(&both.server);
        // What waits for the hook is not handled when it fails.
        let early = support::record(&[support::notify(&OneWay(false)), request(0, 0x1001, b"\0")]);
        peer.write(&[RawPeer::hello(), early].concat()).await;
        peer.finish_handshake().await;
        let reason = peer.goodbye().await;
        assert_eq!(reason.code, CloseCode::Internal);
        assert!(!reason.message.contains("password"), "{reason}");
        drop(peer);
        // The hook of the end panics as well.
        bomb.disconnected.has_entered(n).await;
        both.server_is_empty().await;
    }
    assert_eq!(bomb.handled.entered(), 0);
    panic.store(false, Ordering::Relaxed);
    assert_eq!(both.client().await.request(Sync(false)).await, Ok(7));
}
