//! Very many calls at once over links that take very little, and the bounds that make callers wait.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{sync::Arc, time::Duration};

use nalix_client::{Client, Session};
use nalix_core::{Connection, RequestError, frame::FrameKind, wire::to_vec};
use nalix_server::{Context, Options, Server, packet, packet_controller};
use tokio::{
    sync::{Notify, Semaphore},
    task::JoinSet,
};

use support::{Both, Live, RawPeer, request, soon};

/// Answered with its text repeated.
#[packet(opcode = 0x1001, reply = String)]
struct Repeat {
    text: String,
    times: u8,
}

/// The same by a handler that has to be polled again.
#[packet(opcode = 0x1002, reply = String)]
struct RepeatSlowly {
    text: String,
    times: u8,
}

/// Runs until it is let go.
#[packet(opcode = 0x1003, reply = u32)]
struct Hold(u32);

#[packet(opcode = 0x1004)]
struct LetGo;

#[packet(opcode = 0x1005, reply = Vec<u8>)]
struct Fill(u32);

/// Waits for the one-way packet `LetGo` of its own client.
#[packet(opcode = 0x1006, reply = ())]
struct UntilLetGo;

#[derive(Clone)]
struct Peer {
    live: Live,
    gate: Arc<Semaphore>,
    let_go: Arc<Notify>,
}

impl Default for Peer {
    fn default() -> Self {
        Self { live: Live::default(), gate: Arc::new(Semaphore::new(0)), let_go: Arc::default() }
    }
}

#[packet_controller]
impl Peer {
    #[packet]
    fn repeat(&self, Repeat { text, times }: Repeat) -> String {
        text.repeat(times.into())
    }

    #[packet(concurrent)]
    async fn repeat_slowly(&self, RepeatSlowly { text, times }: RepeatSlowly) -> String {
        let mut out = String::new();
        for _ in 0..times {
            tokio::task::yield_now().await;
            out += &text;
        }
        out
    }

    #[packet(concurrent)]
    async fn hold(&self, Hold(n): Hold) -> u32 {
        let _guard = self.live.enter();
        self.gate.acquire().await.expect("never closed").forget();
        n
    }

    #[packet(concurrent)]
    async fn until_let_go(&self, _: UntilLetGo) {
        let _guard = self.live.enter();
        self.let_go.notified().await;
    }

    #[packet]
    fn let_go(&self, _: LetGo) {
        self.let_go.notify_one();
    }

    #[packet]
    fn fill(&self, Fill(n): Fill) -> Vec<u8> {
        vec![1; n as usize]
    }
}

/// Makes `n` calls of both kinds at once.
async fn call_often(connection: Connection, n: usize, tag: &'static str) {
    let mut calls = JoinSet::new();
    for i in 0..n {
        let connection = connection.clone();
        calls.spawn(async move {
            let text = format!("{tag}{i}.");
            let times = (i % 9) as u8;
            let expected = text.repeat(times.into());
            let answer = if i % 2 == 0 {
                connection.request(Repeat { text, times }).no_timeout().await
            } else {
                connection.request(RepeatSlowly { text, times }).no_timeout().await
            };
            assert_eq!(answer, Ok(expected));
        });
    }
    while let Some(call) = soon(calls.join_next()).await {
        call.unwrap();
    }
    assert_eq!(connection.calls_in_flight(), 0);
}

async fn both_call_often(both: &Both, session: &Session, n: usize) {
    let (ours, theirs) = (session.connection().clone(), both.server_end().await);
    let (a, b) = (tokio::spawn(call_often(ours, n, "c")), tokio::spawn(call_often(theirs, n, "s")));
    a.await.unwrap();
    b.await.unwrap();
    assert_eq!(session.connection().late_answers(), 0);
    assert_eq!(session.connection().close_reason(), None);
}

/// Neither side ever waits with a write while it could read: links that take next to nothing do not get stuck.
#[tokio::test(start_paused = true)]
async fn a_thousand_calls_in_both_directions_pass_through_seven_bytes() {
    let mut both = Both::new(Peer::default()).await;
    both.capacity = 7;
    let session = both.client_serving(Peer::default()).await;
    both_call_often(&both, &session, 1_000).await;
}

#[tokio::test(start_paused = true)]
async fn a_hundred_calls_in_both_directions_pass_through_one_byte() {
    let mut both = Both::new(Peer::default()).await;
    both.capacity = 1;
    let session = both.client_serving(Peer::default()).await;
    both_call_often(&both, &session, 100).await;
}

/// Every bound at its lowest, on both sides.
#[tokio::test(start_paused = true)]
async fn the_tightest_bounds_only_make_callers_wait() {
    for capacity in [1, 7, 1 << 16] {
        let mut options = Options::default();
        (options.max_calls, options.max_queued, options.outbox) = (1, 1, 1);
        let mut both = Both::with(Peer::default(), options.clone()).await;
        (both.capacity, both.client_options) = (capacity, options);
        let session = both.client_serving(Peer::default()).await;
        both_call_often(&both, &session, 200).await;
    }
}

#[test]
fn a_thousand_calls_in_both_directions_pass_between_threads() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(3).enable_all().build().unwrap();
    runtime.block_on(async {
        let server = Server::builder().plaintext().tcp("127.0.0.1:0").controller(Peer::default());
        let server = server.build().await.unwrap();
        let address = format!("tcp://{}", server.local_addr());
        let (handle, running) = server.spawn();
        let client = Client::builder(address).no_reconnect().plaintext().controller(Peer::default());
        let session = client.connect().await.unwrap();
        session.request(Fill(1)).await.unwrap();
        let theirs = handle.connections().remove(0);
        let a = tokio::spawn(call_often(session.connection(), 1_000, "c"));
        let b = tokio::spawn(call_often(theirs, 1_000, "s"));
        a.await.unwrap();
        b.await.unwrap();
        handle.shutdown();
        soon(running).await.unwrap().unwrap();
    });
}

/// The peer's bound holds, the waiting calls take their turn in order, and none is lost.
#[tokio::test(start_paused = true)]
async fn calls_over_the_limit_wait_their_turn() {
    let peer = Peer::default();
    let mut options = Options::default();
    options.max_calls = 10;
    let session = Both::with(peer.clone(), options).await.client().await;
    let (done, mut finished) = tokio::sync::mpsc::unbounded_channel();
    for i in 0..100 {
        let (session, done) = (session.clone(), done.clone());
        tokio::spawn(async move {
            let answer = session.request(Hold(i)).no_timeout().await;
            done.send(answer.unwrap()).unwrap();
        });
    }
    peer.live.is(10).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!((peer.live.count(), session.connection().calls_in_flight()), (10, 10));
    for i in 0..100 {
        peer.gate.add_permits(1);
        assert_eq!(soon(finished.recv()).await, Some(i));
    }
    assert_eq!(session.connection().calls_in_flight(), 0);
}

/// A one-way packet needs no slot. The call that holds the last one may be waiting for just this packet.
#[tokio::test(start_paused = true)]
async fn one_way_packets_do_not_wait_behind_calls_that_wait_for_a_slot() {
    let peer = Peer::default();
    let mut options = Options::default();
    options.max_calls = 1;
    let session = Both::with(peer.clone(), options).await.client().await;
    let first = tokio::spawn({
        let session = session.clone();
        async move { session.request(UntilLetGo).no_timeout().await }
    });
    peer.live.is(1).await;
    let second = tokio::spawn({
        let session = session.clone();
        async move { session.request(Repeat { text: "x".into(), times: 3 }).no_timeout().await }
    });
    // The second waits when the clock moves.
    tokio::time::sleep(Duration::from_millis(1)).await;
    soon(session.send(&LetGo)).await.unwrap();
    assert_eq!(soon(first).await.unwrap(), Ok(()));
    assert_eq!(soon(second).await.unwrap(), Ok("xxx".into()));
}

/// Those who wait for room and those who wait for a slot give up in any order, and the others still get their turn.
#[tokio::test(start_paused = true)]
async fn callers_that_give_up_waiting_hold_nobody_up() {
    let peer = Peer::default();
    let mut options = Options::default();
    options.max_calls = 2;
    let mut both = Both::with(peer.clone(), options).await;
    both.client_options.outbox = 30;
    both.capacity = 16;
    let session = both.client().await;
    let mut calls = JoinSet::new();
    for i in 0..300u32 {
        let session = session.clone();
        calls.spawn(async move {
            let give_up = Duration::from_micros(u64::from(i * 7_919 % 1_000));
            match i % 3 {
                0 => drop(tokio::time::timeout(give_up, session.request(Hold(i))).await),
                1 => drop(tokio::time::timeout(give_up, session.send(&LetGo)).await),
                _ => {
                    let answer = session.request(Repeat { text: i.to_string(), times: 1 }).no_timeout().await;
                    assert_eq!(answer, Ok(i.to_string()));
                }
            }
        });
    }
    peer.gate.add_permits(1_000);
    while let Some(call) = soon(calls.join_next()).await {
        call.unwrap();
    }
    assert_eq!(session.request(Repeat { text: "end".into(), times: 1 }).await, Ok("end".into()));
    assert_eq!(session.connection().calls_in_flight(), 0);
}

/// Many answers that are each larger than the outbox, asked for in one record.
#[tokio::test(start_paused = true)]
async fn answers_larger_than_the_outbox_all_come() {
    let mut options = Options::default();
    options.outbox = 100;
    let both = Both::with(Peer::default(), options).await;
    for capacity in [100, 1 << 20] {
        let mut peer = RawPeer::connect_over(&both.server, capacity).await;
        let fill = |id, n: u32| request(id, 0x1005, &to_vec(&Fill(n)).unwrap());
        let (big, small) = (fill(0, 300_000), fill(1, 1_000));
        peer.send(&[big, small.clone(), fill(2, 5), fill(3, 2_000)]).await;
        // The first goes in fragments, so that the others may overtake it.
        let mut answers = Vec::new();
        for _ in 0..4 {
            let frame = peer.frame().await.unwrap();
            assert_eq!(frame.kind, FrameKind::Reply, "{frame:?}");
            answers.push((frame.id.get(), frame.payload));
        }
        answers.sort_by_key(|(id, _)| *id);
        for ((id, payload), (expected, n)) in
            answers.into_iter().zip([(0, 300_000), (1, 1_000), (2, 5), (3, 2_000)])
        {
            assert_eq!(id, expected);
            assert!(payload == to_vec(&vec![1u8; n]).unwrap(), "{id}");
        }
        // The link is read again, and whoever asks next is answered.
        peer.send(&[small]).await;
        peer.reply(1).await;
        peer.ping().await;
    }
}

/// Two clones of a handle, one task that gives its call up: the slot goes to the other.
#[tokio::test(start_paused = true)]
async fn a_request_that_was_never_polled_has_no_effect() {
    let peer = Peer::default();
    let session = Both::new(peer.clone()).await.client().await;
    for _ in 0..1_000 {
        drop(session.request(Hold(1)));
        drop(std::future::IntoFuture::into_future(session.request(Hold(1))));
        drop(session.send(&LetGo));
    }
    assert_eq!(session.request(Repeat { text: "a".into(), times: 2 }).await, Ok("aa".into()));
    assert_eq!((peer.live.entered(), session.connection().calls_in_flight()), (0, 0));
}

/// What a handler is given says whom it serves.
#[tokio::test(start_paused = true)]
async fn the_ends_of_a_connection_keep_values_apart() {
    #[derive(Clone)]
    struct Keeper;
    #[packet_controller]
    impl Keeper {
        #[packet]
        fn hold(&self, ctx: &Context, Hold(n): Hold) -> u32 {
            ctx.set(n).map_or(0, |old| *old)
        }
    }
    let both = Both::new(Keeper).await;
    let (first, second) = (both.client().await, both.client().await);
    for (session, n, old) in [(&first, 1, 0), (&second, 2, 0), (&first, 3, 1), (&second, 4, 2)] {
        assert_eq!(session.request(Hold(n)).await, Ok::<u32, RequestError<_>>(old));
    }
}
