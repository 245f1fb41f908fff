//! What members who do not read cost: the same however much is sent to them, and large packets once for all of them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::SeqCst},
};

use nalix_core::frame::{FRAGMENT, FrameKind};
use nalix_server::{
    CloseCode, Delivery, Encoded, Options, ServerHandle, packet, packet_controller, wire::from_slice,
};
use peak_alloc::PeakAlloc;
use support::{RawPeer, deaf, eventually, member, server, until};
use tokio::sync::Mutex;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// The allocator counts for all threads, so there is one test at a time.
static ALONE: Mutex<()> = Mutex::const_new(());

#[packet(opcode = 0x3001)]
struct Block {
    n: u64,
    data: Vec<u8>,
}

/// Counts, and checks the order.
#[derive(Clone, Default)]
struct Ear {
    next: Arc<AtomicU64>,
}

#[packet_controller]
impl Ear {
    #[packet]
    fn block(&self, block: Block) {
        assert_eq!(self.next.fetch_add(1, SeqCst), block.n, "in order, and none is missing");
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

fn block(n: u64, len: usize) -> Block {
    Block { n, data: vec![7; len] }
}

/// Lets every driver write what its link takes.
async fn all_are_stuck() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

/// The next frame's block, and how long it is.
async fn next_block(peer: &mut RawPeer) -> (u64, usize) {
    let frame = peer.frame().await.expect("a packet");
    assert_eq!((frame.kind, frame.opcode.get(), frame.unfinished), (FrameKind::Notify, 0x3001, None));
    let block: Block = from_slice(&frame.payload).unwrap();
    assert!(block.data.iter().all(|byte| *byte == 7));
    (block.n, block.data.len())
}

const MIB: usize = 1 << 20;

/// A copy for each would be a gigabyte.
#[tokio::test]
async fn a_large_push_to_a_thousand_who_do_not_read_is_kept_once() {
    const MEMBERS: usize = 1_000;
    let _alone = ALONE.lock().await;
    let server = server(Nothing, Options::default()).await;
    for delivery in [Delivery::Reliable, Delivery::Droppable, Delivery::Latest(1)] {
        let group = server.hub().group("g");
        let mut peers = Vec::new();
        for _ in 0..MEMBERS {
            let (peer, connection) = deaf(&server, 1 << 10).await;
            group.join(&connection);
            peers.push((peer, connection));
        }
        all_are_stuck().await;
        let packet = block(1, MIB);
        let before = MEMORY.current_usage();
        assert_eq!(group.with(delivery).send(&packet).queued, MEMBERS);
        let waiting = MEMORY.current_usage() - before;
        assert!(waiting < MIB + 4096 + MEMBERS * 1_500, "{delivery:?}: {waiting} bytes wait");
        all_are_stuck().await;
        // One write's worth of fragments is on its way to each.
        let stuck = MEMORY.current_usage() - before;
        assert!(stuck < MIB + 4096 + MEMBERS * (4 * FRAGMENT + 4096), "{delivery:?}: {stuck} bytes");
        assert!(stuck > MEMBERS * FRAGMENT, "{delivery:?}: nothing was written");
        for (peer, _) in peers.iter_mut().step_by(100) {
            assert_eq!(next_block(peer).await, (1, MIB), "{delivery:?}");
        }
        drop(peers);
        eventually("all are gone", || server.connection_count() == 0).await;
        let left = MEMORY.current_usage().saturating_sub(before);
        assert!(left < MIB, "{delivery:?}: {left} bytes are left");
    }
}

/// That the bytes are shared does not let a member who does not read have more of them wait.
#[tokio::test]
async fn shared_bytes_count_in_full_for_every_members_budget() {
    let _alone = ALONE.lock().await;
    let mut options = Options::default();
    options.large_outbox = 3 * MIB + MIB / 2;
    let server = server(Nothing, options).await;
    let group = server.hub().group("g");
    let mut peers = Vec::new();
    for _ in 0..3 {
        let (peer, connection) = deaf(&server, 1 << 10).await;
        group.join(&connection);
        peers.push((peer, connection));
    }
    let encoded = Encoded::new(&block(5, MIB)).unwrap();
    for n in 0..3 {
        assert_eq!(group.with(Delivery::Droppable).send(&encoded).queued, if n == 0 { 3 } else { 0 }, "{n}");
    }
    for (_, connection) in &peers {
        assert_eq!(connection.left_out(), 2, "beyond the drop mark");
    }
    for n in 0..4 {
        let sent = group.send(&encoded);
        assert_eq!(
            (sent.queued, sent.slow),
            if n < 2 {
                (3, 0)
            } else if n == 2 {
                (0, 3)
            } else {
                (0, 0)
            },
            "{n}"
        );
        assert_eq!(sent.failed, if n == 3 { 3 } else { 0 }, "they are closed already");
    }
    for (peer, connection) in &mut peers {
        assert_eq!(peer.goodbye().await.code, CloseCode::SlowConsumer, "which does not wait for large ones");
        eventually("it has ended", || connection.close_reason().is_some()).await;
    }
    eventually("they are out", || group.is_empty()).await;
}

const OUTBOX: usize = 64 * 1024;
const SENT: u64 = 3_000;

async fn small() -> ServerHandle {
    let mut options = Options::default();
    options.outbox = OUTBOX;
    options.drop_mark = OUTBOX / 4;
    server(Ear::default(), options).await
}

/// One that is stuck among nine that read, and what it costs after little and after much.
#[tokio::test]
async fn a_stuck_member_costs_the_same_however_much_is_sent_and_delays_nobody() {
    let _alone = ALONE.lock().await;
    for delivery in [Delivery::Droppable, Delivery::Latest(1), Delivery::Reliable] {
        let server = small().await;
        let group = server.hub().group("g");
        let (mut stuck, stuck_connection) = deaf(&server, 4 << 10).await;
        group.join(&stuck_connection);
        let mut others = Vec::new();
        for _ in 0..9 {
            let ear = Ear::default();
            let (session, connection) = member(&server, ear.clone()).await;
            group.join(&connection);
            others.push((session, connection, ear.next));
        }
        let packet = |n| block(n, 1_000);
        let (mut queued, mut skipped, mut slow, mut early) = (0, 0, 0, 0);
        for n in 0..SENT {
            let sent = group.with(delivery).send(&packet(n));
            queued += sent.queued;
            skipped += sent.skipped;
            slow += sent.slow;
            // Nobody else ever waits for the one that is stuck.
            let others_have_it = || others.iter().all(|(_, _, next)| next.load(SeqCst) == n + 1);
            until("the others have it", others_have_it).await;
            match n {
                500 => early = MEMORY.current_usage(),
                2_999 => {
                    let late = MEMORY.current_usage();
                    assert!(late < early + 16 * 1024, "{delivery:?}: {early} and then {late} bytes");
                }
                _ => {}
            }
        }
        assert!(others.iter().all(|(_, connection, _)| connection.left_out() == 0));
        match delivery {
            Delivery::Droppable => {
                assert_eq!((queued + skipped, slow), (10 * SENT as usize, 0));
                assert_eq!(stuck_connection.left_out(), skipped as u64);
                assert!(skipped > 2_900, "{skipped}");
                assert_eq!(next_block(&mut stuck).await.0, 0, "the first are kept");
            }
            Delivery::Latest(_) => {
                assert_eq!((queued, skipped, slow), (10 * SENT as usize, 0, 0), "one waits, and is replaced");
                let mut last = 0;
                let mut came = 0;
                while last != SENT - 1 {
                    let (n, _) = next_block(&mut stuck).await;
                    assert!(came == 0 || n > last, "{n} behind {last}");
                    last = n;
                    came += 1;
                }
                assert_eq!(stuck_connection.left_out(), SENT - came, "the others were replaced");
            }
            _ => {
                assert_eq!((slow, skipped, stuck_connection.left_out()), (1, 0, 1));
                let reason = || stuck_connection.close_reason();
                eventually("it is given up", || reason().is_some()).await;
                assert_eq!(reason().unwrap().code, CloseCode::SlowConsumer);
                assert_eq!(group.count(), 9);
            }
        }
    }
}
