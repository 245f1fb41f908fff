//! Callers that give up, at every moment at which they can.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{
    future::{Future, IntoFuture, poll_fn},
    pin::pin,
    sync::{Arc, mpsc},
    task::Poll,
    time::Duration,
};

use nalix_client::{Client, Session};
use nalix_core::{Code, wire::to_vec};
use nalix_server::{Options, Server, packet, packet_controller};
use tokio::{task::JoinSet, time::Instant};

use support::{Both, Live, RawPeer, cancel, request, soon};

/// Answered with its number after so many turns.
#[packet(opcode = 0x1001, reply = u64)]
struct Get {
    n: u64,
    turns: u32,
}

/// The same, one after the other.
#[packet(opcode = 0x1002, reply = u64)]
struct GetInOrder {
    n: u64,
    turns: u32,
}

#[packet(opcode = 0x1003, reply = ())]
struct Never;

#[packet(opcode = 0x1004, reply = ())]
struct NeverOnItsOwn;

#[packet(opcode = 0x1005, reply = ())]
struct Block;

#[packet(opcode = 0x1006, reply = u64)]
struct Sync(u64);

#[derive(Clone)]
struct Store {
    live: Live,
    blocked: Arc<std::sync::Mutex<mpsc::Receiver<()>>>,
    unblock: mpsc::Sender<()>,
}

impl Default for Store {
    fn default() -> Self {
        let (unblock, blocked) = mpsc::channel();
        Self { live: Live::default(), blocked: Arc::new(std::sync::Mutex::new(blocked)), unblock }
    }
}

impl Store {
    async fn take(&self, n: u64, turns: u32) -> u64 {
        let _guard = self.live.enter();
        for turn in 0..turns {
            if turn % 3 == 2 {
                tokio::time::sleep(Duration::from_micros(300)).await;
            } else {
                tokio::task::yield_now().await;
            }
        }
        n
    }
}

#[packet_controller]
impl Store {
    #[packet(concurrent)]
    async fn get(&self, Get { n, turns }: Get) -> u64 {
        self.take(n, turns).await
    }

    #[packet]
    async fn get_in_order(&self, GetInOrder { n, turns }: GetInOrder) -> u64 {
        self.take(n, turns).await
    }

    #[packet(concurrent)]
    async fn never(&self, _: Never) {
        let _guard = self.live.enter();
        std::future::pending::<()>().await;
    }

    #[packet(spawn, lane = "own")]
    async fn never_on_its_own(&self, _: NeverOnItsOwn) {
        let _guard = self.live.enter();
        std::future::pending::<()>().await;
    }

    #[packet(blocking, lane = "block")]
    fn block(&self, _: Block) {
        let _guard = self.live.enter();
        self.blocked.lock().unwrap().recv().unwrap();
    }

    #[packet(lane = "sync")]
    fn sync(&self, Sync(n): Sync) -> u64 {
        n
    }
}

/// Numbers that look random and are the same every time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// Polls `future` up to `polls` times, whether it has been woken or not, and lets everybody else run in between.
async fn give_up_after<F: Future>(future: F, polls: u64) -> Option<F::Output> {
    let mut future = pin!(future);
    for _ in 0..polls {
        if let Poll::Ready(out) = poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await {
            return Some(out);
        }
        tokio::task::yield_now().await;
    }
    None
}

async fn drop_and_ask(session: Session, seed: u64, rounds: u64) {
    let mut dice = Dice(seed);
    for round in 0..rounds {
        let n = seed * 1_000_000 + round * 10;
        let turns = dice.roll(6) as u32;
        let polls = dice.roll(12);
        let dropped = match dice.roll(3) {
            0 => give_up_after(session.request(Get { n, turns }).into_future(), polls).await,
            1 => give_up_after(session.request(GetInOrder { n, turns }).into_future(), polls).await,
            _ => give_up_after(session.request(Sync(n)).into_future(), polls).await,
        };
        if let Some(answer) = dropped {
            assert_eq!(answer, Ok(n));
        }
        let (b, c) = tokio::join!(
            session.request(Get { n: n + 1, turns: dice.roll(3) as u32 }),
            session.request(GetInOrder { n: n + 2, turns: 0 }),
        );
        assert_eq!((b, c), (Ok(n + 1), Ok(n + 2)), "round {round}");
    }
}

async fn drop_often(capacity: usize, max_calls: usize, tasks: u64, rounds: u64) {
    let store = Store::default();
    let mut options = Options::default();
    options.max_calls = max_calls;
    let mut both = Both::with(store.clone(), options).await;
    both.capacity = capacity;
    both.client_options.request_timeout = None;
    let session = both.client().await;
    let mut all = JoinSet::new();
    for task in 0..tasks {
        all.spawn(drop_and_ask(session.clone(), task + 1, rounds));
    }
    while let Some(task) = soon(all.join_next()).await {
        task.unwrap();
    }
    // The last given-up calls are answered before the pong of what comes behind them.
    assert_eq!(session.request(GetInOrder { n: 1, turns: 0 }).await, Ok(1));
    store.live.is(0).await;
    assert_eq!(session.connection().calls_in_flight(), 0);
    assert_eq!(session.connection().close_reason(), None);
}

/// However and whenever callers give up, every other caller gets its own answer.
#[tokio::test(start_paused = true)]
async fn answers_of_dropped_calls_reach_nobody_else() {
    drop_often(1 << 16, 1_024, 1, 4_000).await;
}

#[tokio::test(start_paused = true)]
async fn answers_of_dropped_calls_reach_nobody_else_in_a_crowd() {
    drop_often(1 << 16, 1_024, 20, 200).await;
}

#[tokio::test(start_paused = true)]
async fn answers_of_dropped_calls_reach_nobody_else_on_a_link_of_seven_bytes() {
    drop_often(7, 1_024, 4, 400).await;
}

#[tokio::test(start_paused = true)]
async fn answers_of_dropped_calls_reach_nobody_else_when_slots_are_short() {
    drop_often(64, 3, 10, 200).await;
}

#[test]
fn answers_of_dropped_calls_reach_nobody_else_between_threads() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(3).enable_all().build().unwrap();
    runtime.block_on(async {
        let store = Store::default();
        let server = Server::builder().plaintext().tcp("127.0.0.1:0").controller(store.clone());
        let server = server.build().await.unwrap();
        let address = format!("tcp://{}", server.local_addr());
        let (_handle, _running) = server.spawn();
        let session = Client::builder(address).no_reconnect().plaintext().connect().await.unwrap();
        let mut all = JoinSet::new();
        for task in 0..8 {
            all.spawn(drop_and_ask(session.clone(), task + 1, 150));
        }
        while let Some(task) = soon(all.join_next()).await {
            task.unwrap();
        }
        assert_eq!(session.request(GetInOrder { n: 1, turns: 0 }).await, Ok(1));
        store.live.is(0).await;
        assert_eq!(session.connection().calls_in_flight(), 0);
    });
}

/// One of a hundred goes; nothing happens to the others.
#[tokio::test(start_paused = true)]
async fn a_dropped_call_disturbs_none_of_its_neighbours() {
    let store = Store::default();
    let session = Both::new(store.clone()).await.client().await;
    let mut calls: Vec<_> =
        (0..100).map(|n| tokio::spawn(session.request(Get { n, turns: 60 }).into_future())).collect();
    store.live.is(100).await;
    calls.swap_remove(37).abort();
    store.live.is(99).await;
    for (i, call) in calls.into_iter().enumerate() {
        let n = if i == 37 { 99 } else { i as u64 };
        assert_eq!(soon(call).await.unwrap(), Ok(n));
    }
    assert_eq!(session.connection().calls_in_flight(), 0);
}

/// Slots come back: far more calls than there are slots are dropped while they run.
#[tokio::test(start_paused = true)]
async fn dropped_calls_give_their_slots_back() {
    let store = Store::default();
    let mut options = Options::default();
    options.max_calls = 16;
    let session = Both::with(store.clone(), options).await.client().await;
    for _ in 0..5_000 {
        assert_eq!(give_up_after(session.request(Never).no_timeout().into_future(), 1).await, None);
    }
    assert_eq!(session.request(Sync(1)).await, Ok(1));
    store.live.is(0).await;
    assert_eq!(session.connection().calls_in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn handlers_of_dropped_calls_are_stopped_wherever_they_run() {
    let store = Store::default();
    let session = Both::new(store.clone()).await.client().await;
    for _ in 0..10 {
        let inline = tokio::spawn(session.request(Never).into_future());
        let spawned = tokio::spawn(session.request(NeverOnItsOwn).into_future());
        store.live.is(2).await;
        let start = Instant::now();
        inline.abort();
        spawned.abort();
        store.live.is(0).await;
        assert!(start.elapsed() < Duration::from_millis(10));
    }
}

/// What blocks a thread cannot be stopped. It is not heard any more, and nobody waits for it.
#[tokio::test]
async fn a_blocking_handler_runs_to_its_end_unheard() {
    let store = Store::default();
    let session = Both::new(store.clone()).await.client().await;
    let blocked = tokio::spawn(session.request(Block).into_future());
    store.live.is(1).await;
    blocked.abort();
    assert_eq!(session.request(Sync(3)).await, Ok(3));
    let again = tokio::spawn(session.request(Block).into_future());
    for _ in 0..2 {
        store.unblock.send(()).unwrap();
    }
    assert_eq!(soon(again).await.unwrap(), Ok(()));
    store.live.is(0).await;
    assert_eq!(session.connection().calls_in_flight(), 0);
}

/// Every request has exactly one answer, also one that is cancelled.
#[tokio::test(start_paused = true)]
async fn a_cancelled_call_is_answered_once() {
    let store = Store::default();
    let both = Both::new(store.clone()).await;
    let mut peer = RawPeer::connect(&both.server).await;
    let in_order = |id, n| request(id, 0x1002, &to_vec(&GetInOrder { n, turns: 1 }).unwrap());
    // The first runs, the second and third wait behind it; the fourth is done at once.
    peer.send(&[
        in_order(0, 10),
        in_order(1, 11),
        in_order(2, 12),
        request(3, 0x1006, &to_vec(&Sync(13)).unwrap()),
        cancel(3),
        cancel(1),
        cancel(1),
        cancel(0),
        cancel(0),
    ])
    .await;
    assert_eq!(peer.reply(3).await, to_vec(&13u64).unwrap());
    assert_eq!(peer.status(1).await.code, Code::Cancelled);
    assert_eq!(peer.status(0).await.code, Code::Cancelled);
    assert_eq!(peer.reply(2).await, to_vec(&12u64).unwrap());
    peer.ping().await;
    store.live.is(0).await;
    assert_eq!(store.live.entered(), 2);
}

/// An id is free as soon as its call has been answered, and a late cancel of its last use hits nobody.
#[tokio::test(start_paused = true)]
async fn an_id_may_be_used_again_at_once() {
    let store = Store::default();
    let both = Both::new(store.clone()).await;
    let mut peer = RawPeer::connect(&both.server).await;
    for n in 0..500u64 {
        peer.send(&[request(0, 0x1003, b""), cancel(0), request(0, 0x1006, &to_vec(&Sync(n)).unwrap())])
            .await;
        assert_eq!(peer.status(0).await.code, Code::Cancelled);
        assert_eq!(peer.reply(0).await, to_vec(&n).unwrap());
        peer.send(&[cancel(0)]).await;
    }
    peer.ping().await;
    store.live.is(0).await;
}
