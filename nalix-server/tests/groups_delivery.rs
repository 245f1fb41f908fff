//! What becomes of packets for members that do not read as fast as they are sent to, and of the others meanwhile.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use nalix_core::{
    frame::{Control, FrameKind},
    wire::from_slice,
};
use nalix_server::{
    CloseCode, Delivery, Encoded, Options, SendError, Sent, ServerHandle, packet, packet_controller,
};
use support::{Inbox, RawPeer, deaf, eventually, member, server};

#[packet(opcode = 0x3001)]
struct Block {
    n: u32,
    data: Vec<u8>,
}

#[packet(opcode = 0x3002)]
struct Spot {
    who: u64,
    at: u32,
}

#[packet(opcode = 0x3003)]
struct Text {
    n: u32,
}

#[packet(opcode = 0x3004, encrypt)]
struct Secret {
    n: u32,
}

#[derive(Clone, Default)]
struct Ear(Inbox<u32>);

#[packet_controller]
impl Ear {
    #[packet]
    fn block(&self, block: Block) {
        assert_eq!(block.data.len(), 1_000);
        self.0.put(block.n);
    }

    #[packet]
    fn text(&self, text: Text) {
        self.0.put(text.n);
    }
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

/// The frames that a peer finds when it reads at last, up to the end of input, or up to a text of the number given.
async fn read(peer: &mut RawPeer, until: Option<u32>) -> (Vec<(u16, Vec<u8>)>, Option<CloseCode>) {
    let (mut packets, mut end) = (Vec::new(), None);
    while let Some(frame) = peer.frame().await {
        match frame.kind {
            FrameKind::Notify => packets.push((frame.opcode.get(), frame.payload.to_vec())),
            FrameKind::Control => match Control::decode(&frame.payload).unwrap() {
                Control::Close(reason) => end = Some(reason.code),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
        let last = packets.last().filter(|(opcode, _)| *opcode == 0x3003);
        if last.is_some_and(|(_, payload)| from_slice::<u32>(payload).ok() == until) {
            break;
        }
    }
    (packets, end)
}

#[tokio::test]
async fn a_stuck_member_is_closed_and_the_others_get_everything() {
    let server = small().await;
    let group = server.hub().group("g");
    let (mut stuck, connection) = deaf(&server, LINK).await;
    group.join(&connection);
    let mut others = Vec::new();
    for _ in 0..5 {
        let ear = Ear::default();
        let (session, connection) = member(&server, ear.clone()).await;
        group.join(&connection);
        others.push((session, ear.0));
    }
    let mut total = Sent::default();
    for n in 0..1_000 {
        let sent = group.send(&block(n));
        total.slow += sent.slow;
        total.queued += sent.queued;
        for (_, inbox) in &others {
            // No other ever waits for the one that is stuck.
            inbox.has(n as usize + 1).await;
        }
    }
    assert!(total.slow >= 1);
    for (_session, inbox) in &others {
        assert_eq!(inbox.all(), (0..1_000).collect::<Vec<_>>());
    }
    eventually("it is out", || group.count() == 5).await;
    assert_eq!(connection.close_reason().unwrap().code, CloseCode::SlowConsumer);
    // No more was kept for it than its outbox, what the driver had taken before, and the link.
    let (packets, _) = read(&mut stuck, None).await;
    let bytes: usize = packets.iter().map(|(_, payload)| payload.len()).sum();
    assert!(bytes <= 2 * OUTBOX + LINK + 2_000, "{bytes}");
    assert!(packets.len() <= total.queued - 5_000);
}

#[tokio::test]
async fn a_member_that_reads_in_time_is_told_why_it_is_closed() {
    let server = small().await;
    let group = server.hub().group("g");
    let (mut slow, connection) = deaf(&server, 1 << 20).await;
    group.join(&connection);
    // All at once: the driver cannot write meanwhile.
    let sent: Vec<Sent> = (0..100).map(|n| group.send(&block(n))).collect();
    let queued = sent.iter().filter(|sent| sent.queued == 1).count();
    assert!((OUTBOX / 1_020..OUTBOX / 1_000 + 2).contains(&queued), "{queued}");
    let (packets, end) = read(&mut slow, None).await;
    assert_eq!((packets.len(), end), (queued, Some(CloseCode::SlowConsumer)));
}

#[tokio::test]
async fn the_reason_of_a_member_that_is_too_slow_counts_all_it_was_not_sent() {
    let server = small().await;
    let group = server.hub().group("g");
    let (mut slow, connection) = deaf(&server, 1 << 20).await;
    group.join(&connection);
    // All at once: the driver cannot write meanwhile.
    let droppable = group.with(Delivery::Droppable);
    let skipped: usize = (0..100).map(|n| droppable.send(&block(n)).skipped).sum();
    assert!(skipped > 0);
    let closed: usize = (0..100).map(|n| group.send(&block(n)).slow).sum();
    assert_eq!(closed, 1, "what comes behind finds it closed");
    let (_, end) = read(&mut slow, None).await;
    assert_eq!(end, Some(CloseCode::SlowConsumer));
    let reason = connection.closed().await;
    let told: usize = reason.message.split(' ').find_map(|word| word.parse().ok()).unwrap();
    assert_eq!((told, connection.left_out()), (skipped + 1, told as u64), "{reason}");
}

#[tokio::test]
async fn droppable_packets_are_left_out_and_the_member_stays() {
    let server = small().await;
    let group = server.hub().group("g");
    let (mut slow, connection) = deaf(&server, LINK).await;
    group.join(&connection);
    let droppable = group.with(Delivery::Droppable);
    let (mut queued, mut skipped) = (0, 0);
    for n in 0..10_000 {
        let sent = droppable.send(&block(n));
        queued += sent.queued;
        skipped += sent.skipped;
        tokio::task::yield_now().await;
    }
    assert_eq!(queued + skipped, 10_000);
    assert!(skipped > 9_000, "{queued}");
    assert_eq!(group.send(&Text { n: 1 }).queued, 1, "there is room for what is not droppable");
    let (packets, _) = read(&mut slow, Some(1)).await;
    assert_eq!(packets.len(), queued + 1);
    assert!(queued * 1_000 <= OUTBOX / 4 * 2 + LINK + 2_000, "{queued}");
    eventually("all is written", || droppable.send(&block(0)).queued == 1).await;
    assert_eq!(connection.close_reason(), None);
}

#[tokio::test]
async fn of_what_waits_only_the_latest_of_each_key_arrives() {
    let server = small().await;
    let group = server.hub().group("g");
    let (mut slow, connection) = deaf(&server, LINK).await;
    group.join(&connection);
    // Fills the link and leaves the driver stuck with the rest.
    for n in 0..20 {
        group.send(&block(n));
    }
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    for at in 0..1_000 {
        for who in 0..10 {
            assert_eq!(group.with(Delivery::Latest(who)).send(&Spot { who, at }).queued, 1);
        }
    }
    let sent = group.with(Delivery::Latest(10)).send(&Spot { who: 10, at: 0 });
    assert_eq!((sent.queued, sent.skipped), (0, 1), "an eleventh key");
    assert_eq!(spots(&mut slow, 20, 10).await, (0..10).map(|who| (who, 999)).collect::<Vec<_>>());
    // Written means forgotten: the next is sent, whatever it says.
    group.with(Delivery::Latest(3)).send(&Spot { who: 3, at: 5 });
    assert_eq!(spots(&mut slow, 0, 1).await, [(3, 5)]);
}

/// Reads so many blocks, and then so many spots.
async fn spots(peer: &mut RawPeer, blocks: usize, spots: usize) -> Vec<(u64, u32)> {
    let mut found = Vec::new();
    for n in 0..blocks + spots {
        let frame = peer.frame().await.expect("a packet");
        assert_eq!(frame.kind, FrameKind::Notify);
        assert_eq!(frame.opcode.get(), if n < blocks { 0x3001 } else { 0x3002 });
        if n >= blocks {
            found.push(from_slice(&frame.payload).unwrap());
        }
    }
    found
}

/// A driver that sleeps has nothing else to wake it.
#[tokio::test]
async fn the_latest_is_sent_to_an_idle_member_at_once_and_before_a_goodbye() {
    let server = small().await;
    let group = server.hub().group("g").with(Delivery::Latest(0));
    let (mut peer, connection) = deaf(&server, LINK).await;
    group.join(&connection);
    peer.ping().await;
    group.send(&Spot { who: 0, at: 1 });
    assert_eq!(peer.frame().await.unwrap().opcode.get(), 0x3002);
    peer.ping().await;
    group.send(&Spot { who: 0, at: 2 });
    connection.close();
    let frame = peer.frame().await.unwrap();
    assert_eq!((frame.opcode.get(), from_slice::<(u64, u32)>(&frame.payload).unwrap()), (0x3002, (0, 2)));
    assert_eq!(peer.goodbye().await.code, CloseCode::Normal);
}

#[tokio::test]
async fn a_confidential_packet_goes_to_no_member_in_the_clear() {
    let server = small().await;
    let group = server.hub().group("g");
    let (mut peer, connection) = deaf(&server, LINK).await;
    group.join(&connection);
    for delivery in [Delivery::Reliable, Delivery::Droppable, Delivery::DropOldest, Delivery::Latest(1)] {
        let sent = group.with(delivery).send(&Secret { n: 1 });
        assert_eq!((sent.queued, sent.failed), (0, 1), "{delivery:?}");
    }
    let encoded = Encoded::new(&Secret { n: 1 }).unwrap();
    assert_eq!(connection.try_send(&encoded), Err(SendError::EncryptionRequired));
    peer.ping().await;
}

#[tokio::test]
async fn a_packet_over_the_message_limit_fails_for_that_member_alone() {
    let mut options = Options::default();
    options.max_send = 500;
    let server = server(Nothing, options).await;
    let group = server.hub().group("g");
    let ear = Ear::default();
    let (_session, connection) = member(&server, ear.clone()).await;
    group.join(&connection);
    for delivery in [Delivery::Reliable, Delivery::Droppable, Delivery::DropOldest, Delivery::Latest(1)] {
        let sent = group.with(delivery).send(&block(1));
        assert_eq!((sent.queued, sent.failed, sent.slow), (0, 1, 0), "{delivery:?}");
    }
    assert_eq!(group.send(&Text { n: 5 }).queued, 1);
    ear.0.has(1).await;
    assert_eq!(ear.0.all(), [5]);
}

fn large(n: u32) -> Block {
    Block { n, data: vec![7; 200 * 1024] }
}

/// The number in the next frame, which must be a block.
async fn next_block(peer: &mut RawPeer) -> u32 {
    let frame = peer.frame().await.unwrap();
    assert_eq!((frame.kind, frame.opcode.get(), frame.unfinished), (FrameKind::Notify, 0x3001, None));
    from_slice::<Block>(&frame.payload).unwrap().n
}

#[tokio::test]
async fn what_does_not_fit_a_frame_arrives_whatever_the_delivery() {
    let server = server(Nothing, Options::default()).await;
    let group = server.hub().group("g");
    let (mut peer, connection) = deaf(&server, LINK).await;
    group.join(&connection);
    for (n, delivery) in [Delivery::Reliable, Delivery::Droppable, Delivery::DropOldest, Delivery::Latest(1)]
        .into_iter()
        .enumerate()
    {
        assert_eq!(group.with(delivery).send(&large(n as u32)).queued, 1, "{delivery:?}");
        assert_eq!(next_block(&mut peer).await, n as u32, "{delivery:?}");
    }
}

#[tokio::test]
async fn large_droppable_packets_do_not_pile_up() {
    let server = server(Nothing, Options::default()).await;
    let group = server.hub().group("g");
    let (mut peer, connection) = deaf(&server, LINK).await;
    group.join(&connection);
    let droppable = group.with(Delivery::Droppable);
    let sent: Vec<_> = (0..5).map(|n| droppable.send(&large(n)).queued).collect();
    assert_eq!(sent, [1, 0, 0, 0, 0]);
    assert_eq!(droppable.send(&block(5)).queued, 1, "it does not wait for large ones");
    assert_eq!((next_block(&mut peer).await, next_block(&mut peer).await), (5, 0));
}

/// Over a link that never makes the driver wait, nothing else would remind it.
#[tokio::test]
async fn a_latest_packet_that_waits_for_a_large_one_is_not_forgotten() {
    let server = server(Nothing, Options::default()).await;
    let group = server.hub().group("g");
    let (mut peer, connection) = deaf(&server, 1 << 20).await;
    group.join(&connection);
    for n in 1..4 {
        assert_eq!(group.with(Delivery::Latest(n)).send(&large(n as u32)).queued, 1);
    }
    for n in 1..4 {
        assert_eq!(next_block(&mut peer).await, n);
    }
}

/// A small one does not overtake the large one that it replaces.
#[tokio::test]
async fn the_latest_comes_last_also_behind_a_large_one() {
    let server = server(Nothing, Options::default()).await;
    let group = server.hub().group("g");
    let (mut peer, connection) = deaf(&server, LINK).await;
    group.join(&connection);
    let latest = |key, block: &Block| assert_eq!(group.with(Delivery::Latest(key)).send(block).queued, 1);
    latest(1, &large(1));
    group.send(&Text { n: 1 });
    let text = peer.frame().await.unwrap();
    assert_eq!(text.opcode.get(), 0x3003, "the first fragments are behind it");
    latest(1, &large(2));
    latest(2, &large(4));
    latest(1, &block(3));
    for n in [1, 3, 4] {
        assert_eq!(next_block(&mut peer).await, n);
    }
    peer.ping().await;
}

/// The way to wait for one connection where a group would close it.
#[tokio::test]
async fn an_encoded_packet_can_wait_for_room() {
    let server = small().await;
    let ear = Ear::default();
    let (_session, connection) = member(&server, ear.clone()).await;
    let encoded = Encoded::new(&block(3)).unwrap();
    for _ in 0..1_000 {
        connection.send(&encoded).await.unwrap();
    }
    ear.0.has(1_000).await;
    assert_eq!(ear.0.all(), [3; 1_000]);
}

/// None of these numbers is an error, and none stands for "no bound".
#[tokio::test]
async fn the_extremes_of_the_bounds_leave_out_all_or_only_what_the_outbox_does() {
    for (bound, expected) in [(0, 0), (usize::MAX, 1)] {
        let mut options = Options::default();
        options.outbox = OUTBOX;
        options.drop_mark = bound;
        options.max_latest = bound;
        let server = server(Nothing, options).await;
        let group = server.hub().group("g");
        let (_peer, connection) = deaf(&server, LINK).await;
        group.join(&connection);
        for delivery in [Delivery::Droppable, Delivery::Latest(1)] {
            let sent = group.with(delivery).send(&Text { n: 1 });
            assert_eq!((sent.queued, sent.skipped), (expected, 1 - expected), "{delivery:?} {bound}");
        }
        let sent = (0..1_000).map(|n| group.with(Delivery::Droppable).send(&block(n)).queued).sum::<usize>();
        assert!(sent <= OUTBOX / 1_000 + 1, "{sent}");
        let sent = (0..1_000).map(|n| group.with(Delivery::Latest(n.into())).send(&block(n)).queued);
        assert!(sent.sum::<usize>() <= OUTBOX / 1_000, "as many bytes as the outbox takes");
        assert_eq!(connection.close_reason(), None);
    }
}
