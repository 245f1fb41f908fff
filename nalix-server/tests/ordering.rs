//! In what order packets are handled, and what runs beside what.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{
    future::IntoFuture,
    sync::{Arc, Mutex},
    time::Duration,
};

use nalix_core::{
    CloseCode,
    frame::{FrameKind, Head},
    wire::to_vec,
};
use nalix_server::{Context, Options, Status, packet, packet_controller};
use tokio::sync::Semaphore;

use support::{Both, Live, RawPeer, frame, notify, record, request, soon};

#[packet(opcode = 0x1001)]
struct Numbered(u32);
#[packet(opcode = 0x1002)]
struct NumberedAside(u32);
#[packet(opcode = 0x1003)]
struct InLaneA(u32);
#[packet(opcode = 0x1004)]
struct InLaneB(u32);
#[packet(opcode = 0x1005, reply = u32)]
struct Spawned(u32);
#[packet(opcode = 0x1006, reply = u32)]
struct Blocking(u32);
#[packet(opcode = 0x1007, reply = Vec<u32>)]
struct Seen;
/// Waits at the gate, in order.
#[packet(opcode = 0x1008, reply = u32)]
struct Gate(u32);
/// Waits at the gate, whatever else does.
#[packet(opcode = 0x1009, reply = u32)]
struct GateAside(u32);
/// Pushes so many numbered packets to the client.
#[packet(opcode = 0x100a, reply = ())]
struct PushMe(u32);
/// One-way, and waits at the gate.
#[packet(opcode = 0x100b)]
struct GateOneWay(u32);
/// Asks the client while one-way packets pile up behind it.
#[packet(opcode = 0x100c)]
struct AskClient;
#[packet(opcode = 0x100d, reply = u32)]
struct Answer;

#[derive(Clone)]
struct Log {
    seen: Arc<Mutex<Vec<u32>>>,
    live: Live,
    gate: Arc<Semaphore>,
}

impl Default for Log {
    fn default() -> Self {
        Self { seen: Arc::default(), live: Live::default(), gate: Arc::new(Semaphore::new(0)) }
    }
}

impl Log {
    fn note(&self, n: u32) {
        self.seen.lock().unwrap().push(n);
    }

    fn take(&self) -> Vec<u32> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }

    async fn pass(&self, n: u32) -> u32 {
        let _guard = self.live.enter();
        self.gate.acquire().await.expect("never closed").forget();
        self.note(n);
        n
    }

    /// Handles for a while that looks random.
    async fn dawdle(&self, n: u32) {
        let _guard = self.live.enter();
        match n.wrapping_mul(2_654_435_761) >> 28 {
            0 => tokio::time::sleep(Duration::from_micros(u64::from(n % 5_000))).await,
            1..4 => tokio::task::yield_now().await,
            _ => {}
        }
        self.note(n);
    }
}

#[packet_controller]
impl Log {
    #[packet]
    async fn numbered(&self, Numbered(n): Numbered) {
        self.dawdle(n).await;
    }
    #[packet(concurrent)]
    async fn numbered_aside(&self, NumberedAside(n): NumberedAside) {
        self.dawdle(n).await;
    }
    #[packet(lane = "a")]
    async fn in_lane_a(&self, InLaneA(n): InLaneA) {
        self.pass(n).await;
    }
    #[packet(lane = "b")]
    async fn in_lane_b(&self, InLaneB(n): InLaneB) {
        self.dawdle(n).await;
    }
    #[packet(spawn)]
    async fn spawned(&self, Spawned(n): Spawned) -> u32 {
        self.dawdle(n).await;
        n
    }
    #[packet(blocking)]
    fn blocking(&self, Blocking(n): Blocking) -> u32 {
        self.note(n);
        n
    }
    #[packet]
    fn seen(&self, _: Seen) -> Vec<u32> {
        self.take()
    }
    #[packet]
    async fn gate(&self, Gate(n): Gate) -> u32 {
        self.pass(n).await
    }
    #[packet(concurrent)]
    async fn gate_aside(&self, GateAside(n): GateAside) -> u32 {
        self.pass(n).await
    }
    #[packet]
    async fn gate_one_way(&self, GateOneWay(n): GateOneWay) {
        self.pass(n).await;
    }
    #[packet(concurrent)]
    async fn push_me(&self, ctx: &Context, PushMe(n): PushMe) -> Result<(), Status> {
        for i in 0..n {
            ctx.send(&Numbered(i)).await.map_err(|error| Status::internal(error.to_string()))?;
        }
        Ok(())
    }
    #[packet]
    async fn ask_client(&self, ctx: &Context, _: AskClient) -> Result<(), Status> {
        let n = ctx.request(Answer).await.map_err(|error| Status::internal(error.to_string()))?;
        self.note(n);
        Ok(())
    }
    #[packet(concurrent)]
    fn answer(&self, _: Answer) -> u32 {
        7
    }
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_packets_are_handled_in_the_order_in_which_they_were_sent() {
    for (capacity, outbox) in [(1 << 16, 1 << 20), (7, 100)] {
        let log = Log::default();
        let mut both = Both::new(log.clone()).await;
        both.capacity = capacity;
        both.client_options.outbox = outbox;
        let session = both.client().await;
        let n = if capacity == 7 { 2_000 } else { 10_000 };
        for i in 0..n {
            session.send(&Numbered(i)).await.unwrap();
        }
        // A request is in order, too.
        let seen = session.request(Seen).no_timeout().await.unwrap();
        assert!(seen.iter().copied().eq(0..n), "{} in wrong order", seen.len());
    }
}

#[tokio::test(start_paused = true)]
async fn pushes_arrive_in_the_order_in_which_they_were_sent() {
    let log = Log::default();
    let mut both = Both::new(Log::default()).await;
    both.capacity = 100;
    let session = both.client_serving(log.clone()).await;
    session.request(PushMe(10_000)).no_timeout().await.unwrap();
    log.live.has_entered(10_000).await;
    log.live.is(0).await;
    assert!(log.take().iter().copied().eq(0..10_000));
}

/// Two tasks that send over one connection do not disturb the order of each other's packets.
#[tokio::test(start_paused = true)]
async fn each_sender_has_its_own_order() {
    let log = Log::default();
    let mut both = Both::new(log.clone()).await;
    (both.capacity, both.client_options.outbox) = (50, 60);
    let session = both.client().await;
    let senders: Vec<_> = (0..10)
        .map(|sender| {
            let session = session.clone();
            tokio::spawn(async move {
                for i in 0..200 {
                    session.send(&Numbered(sender * 1_000 + i)).await.unwrap();
                }
            })
        })
        .collect();
    for sender in senders {
        soon(sender).await.unwrap();
    }
    let seen = session.request(Seen).await.unwrap();
    assert_eq!(seen.len(), 2_000);
    for sender in 0..10 {
        let own = seen.iter().copied().filter(|n| n / 1_000 == sender);
        assert!(own.eq(sender * 1_000..sender * 1_000 + 200));
    }
}

#[tokio::test(start_paused = true)]
async fn in_order_means_one_at_a_time() {
    let log = Log::default();
    let session = Both::new(log.clone()).await.client().await;
    let calls: Vec<_> = (0..20).map(|n| tokio::spawn(session.request(Gate(n)).into_future())).collect();
    for n in 1..=20 {
        log.live.has_entered(n).await;
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!((log.live.count(), log.live.entered()), (1, n));
        log.gate.add_permits(1);
    }
    for call in calls {
        soon(call).await.unwrap().unwrap();
    }
    assert!(log.take().iter().copied().eq(0..20));
}

#[tokio::test(start_paused = true)]
async fn concurrent_handlers_run_beside_everything() {
    let log = Log::default();
    let session = Both::new(log.clone()).await.client().await;
    let first = tokio::spawn(session.request(Gate(1_000)).into_future());
    log.live.is(1).await;
    let calls: Vec<_> = (0..20).map(|n| tokio::spawn(session.request(GateAside(n)).into_future())).collect();
    log.live.is(21).await;
    for n in 0..100 {
        session.send(&NumberedAside(n)).await.unwrap();
    }
    log.live.has_entered(121).await;
    log.gate.add_permits(21);
    for call in calls {
        soon(call).await.unwrap().unwrap();
    }
    assert_eq!(soon(first).await.unwrap(), Ok(1_000));
    log.live.is(0).await;
    let mut seen = log.take();
    seen.sort_unstable();
    assert_eq!(seen.len(), 121);
}

#[tokio::test(start_paused = true)]
async fn lanes_keep_their_own_order_and_wait_for_no_other() {
    let log = Log::default();
    let session = Both::new(log.clone()).await.client().await;
    for n in 0..100 {
        session.send(&InLaneA(n)).await.unwrap();
        session.send(&InLaneB(1_000 + n)).await.unwrap();
        session.send(&Numbered(2_000 + n)).await.unwrap();
    }
    // Lane a stands still at the gate. Lane b and those without a lane go on.
    let seen = session.request(Seen).await.unwrap();
    let of = |seen: &[u32], lane: u32| seen.iter().copied().filter(|n| n / 1_000 == lane).collect::<Vec<_>>();
    assert!(of(&seen, 2).into_iter().eq(2_000..2_100));
    assert_eq!(of(&seen, 0), []);
    log.live.has_entered(201).await;
    log.live.is(1).await;
    let mut lane_b = of(&seen, 1);
    lane_b.extend(of(&log.take(), 1));
    assert!(lane_b.into_iter().eq(1_000..1_100));
    log.gate.add_permits(100);
    log.live.has_entered(300).await;
    log.live.is(0).await;
    assert!(log.take().into_iter().eq(0..100));
}

/// Where a handler runs does not change when it runs.
#[tokio::test]
async fn handlers_on_tasks_and_threads_of_their_own_keep_the_order() {
    let log = Log::default();
    let session = Both::new(log.clone()).await.client().await;
    let calls: Vec<_> = (0..300)
        .map(|n| {
            let session = session.clone();
            // Sent at the first poll, so they are sent in this order.
            tokio::spawn(async move {
                match n % 3 {
                    0 => session.request(Spawned(n)).await,
                    1 => session.request(Blocking(n)).await,
                    _ => {
                        session.send(&Numbered(n)).await.unwrap();
                        Ok(n)
                    }
                }
            })
        })
        .collect();
    for (n, call) in calls.into_iter().enumerate() {
        assert_eq!(soon(call).await.unwrap(), Ok(n as u32));
    }
    assert!(session.request(Seen).await.unwrap().into_iter().eq(0..300));
}

/// One-way packets that wait are bounded, also when they all come in one record: the rest stays where it is.
#[tokio::test(start_paused = true)]
async fn a_flood_of_one_way_packets_is_left_unread() {
    let log = Log::default();
    let mut options = Options::default();
    options.max_queued = 10;
    let both = Both::with(log.clone(), options).await;
    let mut peer = RawPeer::connect(&both.server).await;
    let ping = frame(Head::plain(FrameKind::Ping), b"");
    let mut flood: Vec<_> = (0..1_000).map(|n| notify(&GateOneWay(n))).collect();
    flood.push(ping.clone());
    peer.write(&record(&flood)).await;
    peer.write(&record(&[ping])).await;
    log.live.is(1).await;
    let early = tokio::time::timeout(Duration::from_secs(5), peer.frame()).await;
    assert!(early.is_err(), "what comes behind the flood is handled: {early:?}");
    for n in 1..=1_000 {
        log.gate.add_permits(1);
        log.live.has_entered(n).await;
    }
    for _ in 0..2 {
        assert_eq!(peer.frame().await.unwrap().kind, FrameKind::Pong);
    }
    log.live.is(0).await;
    assert!(log.take().into_iter().eq(0..1_000));
}

/// The answer that a handler waits for is found behind the packets that wait for that handler.
#[tokio::test(start_paused = true)]
async fn a_flood_does_not_keep_a_handler_from_its_answer() {
    let log = Log::default();
    let mut options = Options::default();
    options.max_queued = 10;
    let both = Both::with(log.clone(), options).await;
    let session = both.client_serving(Log::default()).await;
    session.send(&AskClient).await.unwrap();
    for n in 0..100 {
        session.try_send(&Numbered(n)).unwrap();
    }
    let seen = session.request(Seen).await.unwrap();
    assert!(seen.into_iter().eq([7].into_iter().chain(0..100)));
}

/// A peer that asks for much and reads nothing is not read for long: what it is owed stays bounded.
#[tokio::test(start_paused = true)]
async fn a_peer_that_is_owed_much_is_left_unread() {
    let mut options = Options::default();
    options.outbox = 1_000;
    let both = Both::with(Log::default(), options).await;
    // Refusals are larger than what they refuse, and are not counted as calls.
    let flood: Vec<_> = (0..100_000).map(|_| request(0, 0x4444, b"")).collect();
    for reads in [true, false] {
        let mut peer = RawPeer::connect(&both.server).await;
        let end = both.server_end().await;
        peer.write(&flood.chunks(3_000).flat_map(record).collect::<Vec<_>>()).await;
        if reads {
            // It was only slow: all of it is answered.
            tokio::time::sleep(Duration::from_secs(5)).await;
            for _ in 0..100_000 {
                peer.status(0).await;
            }
            peer.send(&[request(1, 0x1007, &to_vec(&Seen).unwrap())]).await;
            peer.reply(1).await;
            drop(peer);
        } else {
            let reason = soon(end.closed()).await;
            assert_eq!(reason.code, CloseCode::SlowConsumer);
            let waiting: usize = reason.message.split(' ').find_map(|word| word.parse().ok()).unwrap();
            assert!(waiting < 100_000, "{waiting}");
        }
        both.server_is_empty().await;
    }
}
