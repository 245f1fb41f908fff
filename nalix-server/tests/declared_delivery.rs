//! What becomes of packets of which the oldest are dropped, and of those that declare how they are delivered.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use nalix_core::{frame::FrameKind, wire::from_slice};
use nalix_server::{
    CloseCode, Connection, Delivery, Encoded, Group, Options, SendError, ServerHandle, packet,
    packet_controller,
};
use support::{RawPeer, deaf, server};

#[packet(opcode = 0x3001)]
struct Block {
    n: u32,
    data: Vec<u8>,
}

#[packet(opcode = 0x3005, delivery = "drop_oldest")]
struct News {
    n: u32,
}

#[packet(opcode = 0x3006, delivery = "latest")]
struct Score {
    n: u32,
}

#[packet(opcode = 0x3007, delivery = "droppable")]
struct Rumour {
    n: u32,
    data: Vec<u8>,
}

struct Nothing;

#[packet(opcode = 0x1001, reply = ())]
struct Nothings;

#[packet_controller]
impl Nothing {
    #[packet]
    fn nothing(&self, _: Nothings) {}
}

const OUTBOX: usize = 64 * 1024;
const LINK: usize = 4 * 1024;

async fn small() -> ServerHandle {
    let mut options = Options::default();
    options.outbox = OUTBOX;
    options.drop_mark = OUTBOX / 4;
    options.max_latest = 10;
    server(Nothing, options).await
}

fn block(n: u32) -> Block {
    Block { n, data: vec![7; 1_000] }
}

/// A member whose driver is stuck with twenty blocks, and the group that it is in.
async fn stuck_in(server: &ServerHandle) -> (RawPeer, Connection, Group) {
    let group = server.hub().group("g");
    let (slow, connection) = deaf(server, LINK).await;
    group.join(&connection);
    for n in 0..20 {
        group.send(&block(n));
    }
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    (slow, connection, group)
}

/// The numbers in the next packets behind the blocks, which are all of this opcode.
async fn numbers(peer: &mut RawPeer, opcode: u16, count: usize) -> Vec<u32> {
    for _ in 0..20 {
        assert_eq!(peer.frame().await.expect("a block").opcode.get(), 0x3001);
    }
    let mut numbers = Vec::new();
    for _ in 0..count {
        let frame = peer.frame().await.expect("a packet");
        assert_eq!(frame.opcode.get(), opcode);
        numbers.push(from_slice(&frame.payload).unwrap());
    }
    numbers
}

#[tokio::test]
async fn of_news_that_waits_the_last_arrives_in_order_and_the_sender_is_told_what_was_dropped() {
    let server = small().await;
    let (mut slow, connection, group) = stuck_in(&server).await;
    let mut dropped = 0;
    for n in 0..1_000 {
        let sent = group.send(&News { n });
        assert_eq!((sent.queued, sent.skipped, sent.slow), (1, 0, 0));
        dropped += sent.dropped;
    }
    // There is room for ten.
    assert_eq!((dropped, connection.left_out()), (990, 990));
    assert_eq!(server.hub().info()[0].left_out, 990, "operators see it");
    assert_eq!(numbers(&mut slow, 0x3005, 10).await, (990..1_000).collect::<Vec<_>>());
    assert_eq!(group.send(&News { n: 0 }).dropped, 0, "those that were written take no room");
    assert_eq!(connection.close_reason(), None);
}

#[tokio::test]
async fn what_a_packet_declares_counts_until_the_call_says_otherwise() {
    let server = small().await;
    let (mut slow, connection, group) = stuck_in(&server).await;
    for n in 0..100 {
        assert_eq!(group.send(&Score { n }).queued, 1);
        assert_eq!(server.hub().send_all(&Score { n }).queued, 1);
        assert_eq!(connection.push(&Score { n }), Ok(0));
        assert_eq!(connection.push(&Encoded::new(&Score { n }).unwrap()), Ok(0));
    }
    assert_eq!(connection.left_out(), 399);
    let rumour = || Rumour { n: 0, data: vec![7; 1_000] };
    let skipped: usize = (0..40).map(|_| group.send(&rumour()).skipped).sum();
    assert!(skipped > 0, "more than the mark waits");
    assert_eq!(connection.push(&rumour()), Err(SendError::Full));
    let left_out = connection.left_out();
    // Calls choose another way, for each of these packets.
    for n in 0..11 {
        let sent = group.with(Delivery::DropOldest).send(&Score { n });
        assert_eq!((sent.queued, sent.dropped), (1, usize::from(n == 10)));
        let sent = server.hub().with(Delivery::Latest(n.into())).send_all(&News { n });
        assert_eq!((sent.queued, sent.skipped), if n < 9 { (1, 0) } else { (0, 1) }, "one key was taken");
    }
    assert_eq!(connection.left_out(), left_out + 3);
    let encoded = Encoded::new(&rumour()).unwrap();
    assert_eq!(connection.try_send_as(Delivery::Reliable, &encoded), Ok(0), "the outbox has room");
    assert_eq!(connection.close_reason(), None);
    while connection.push(&block(0)).is_ok() {}
    while slow.frame().await.is_some_and(|frame| frame.kind == FrameKind::Notify) {}
    assert_eq!(connection.closed().await.code, CloseCode::SlowConsumer, "blocks declare nothing");
}

#[tokio::test]
async fn news_is_sent_to_an_idle_member_at_once_and_before_a_goodbye() {
    let server = small().await;
    let (mut peer, connection) = deaf(&server, LINK).await;
    peer.ping().await;
    connection.push(&News { n: 1 }).unwrap();
    assert_eq!(peer.frame().await.unwrap().opcode.get(), 0x3005);
    peer.ping().await;
    for n in 2..4 {
        connection.push(&News { n }).unwrap();
    }
    connection.close();
    for n in 2..4 {
        let frame = peer.frame().await.unwrap();
        assert_eq!((frame.opcode.get(), from_slice::<u32>(&frame.payload).unwrap()), (0x3005, n));
    }
    assert_eq!(peer.goodbye().await.code, CloseCode::Normal);
}

#[tokio::test]
async fn without_any_room_for_it_news_is_left_out() {
    for options in [Options::default().max_latest(0), Options::default().drop_mark(0)] {
        let server = server(Nothing, options).await;
        let group = server.hub().group("g");
        let (_peer, connection) = deaf(&server, LINK).await;
        group.join(&connection);
        let sent = group.send(&News { n: 0 });
        assert_eq!((sent.queued, sent.skipped, sent.dropped), (0, 1, 0));
        assert_eq!(connection.left_out(), 1);
    }
}
