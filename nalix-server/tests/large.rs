//! Large messages between live ends: what is beside them is not held up, and whatever breaks them off leaves the connection
//! and its memory as they were.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{
    collections::VecDeque,
    future::{Future, IntoFuture},
    pin::pin,
    task::{Context as TaskContext, Poll, Waker},
};

use bytes::Bytes;
use nalix_client::{Client, Session};
use nalix_core::{
    CallId, Code, RequestError, SendError,
    frame::{FRAGMENT, FrameKind, Head},
    session::{Frame, Inbound, MAX_MESSAGE, Unfinished},
    wire::to_vec,
};
use nalix_server::{Identity, Options, Server, packet, packet_controller};
use tokio::{io::AsyncReadExt, sync::Semaphore, task::yield_now};

use support::{
    Both, Live, RawPeer, cancel, frame, large_request, record, request, soon, status, until, within,
};

#[packet(opcode = 0x1001, reply = u64)]
struct Measure(Bytes);

#[packet(opcode = 0x1002, reply = Bytes)]
struct Give(u32);

#[packet(opcode = 0x1003)]
struct Keep(Bytes);

/// Answered when the test says so.
#[packet(opcode = 0x1004, reply = u64)]
struct Hold(Bytes);

/// The same, in order.
#[packet(opcode = 0x1005, reply = ())]
struct Wait;

#[derive(Clone, Default)]
struct Store {
    measured: Live,
    kept: Live,
    holding: Live,
    go: std::sync::Arc<std::sync::OnceLock<Semaphore>>,
}

impl Store {
    fn go(&self) -> &Semaphore {
        self.go.get_or_init(|| Semaphore::new(0))
    }
}

#[packet_controller]
impl Store {
    #[packet]
    fn measure(&self, Measure(bytes): Measure) -> u64 {
        drop(self.measured.enter());
        bytes.len() as u64
    }

    #[packet]
    fn give(&self, Give(len): Give) -> Bytes {
        vec![7; len as usize].into()
    }

    #[packet]
    fn keep(&self, _: Keep) {
        drop(self.kept.enter());
    }

    #[packet]
    async fn wait(&self, _: Wait) {
        let _guard = self.holding.enter();
        self.go().acquire().await.unwrap().forget();
    }

    #[packet(concurrent)]
    async fn hold(&self, Hold(bytes): Hold) -> u64 {
        let _guard = self.holding.enter();
        self.go().acquire().await.unwrap().forget();
        bytes.len() as u64
    }
}

fn some(len: usize) -> Bytes {
    vec![7; len].into()
}

fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut TaskContext::from_waker(Waker::noop()))
}

/// A raw end that reads as few bytes at a time as a test wants.
struct Slow {
    peer: RawPeer,
    inbound: Inbound,
    /// Messages that have come together with the last one.
    more: VecDeque<Frame>,
}

impl Slow {
    fn new(peer: RawPeer) -> Self {
        let mut inbound = Inbound::new(0);
        inbound.establish(MAX_MESSAGE);
        Self { peer, inbound, more: VecDeque::new() }
    }

    /// Reads so many bytes and returns the messages that they complete.
    async fn read(&mut self, n: usize) -> Vec<Frame> {
        let mut bytes = vec![0; n];
        soon(self.peer.stream.read_exact(&mut bytes)).await.unwrap();
        self.inbound.buffer().extend_from_slice(&bytes);
        let mut frames = Vec::new();
        while let Some(frame) = self.inbound.next_frame().unwrap() {
            frames.push(frame);
        }
        frames
    }

    /// Reads on to the next message.
    async fn next(&mut self) -> Frame {
        self.bytes_until_next().await.1
    }

    /// How many bytes come until a message does, and which.
    async fn bytes_until_next(&mut self) -> (usize, Frame) {
        let mut n = 0;
        loop {
            if let Some(frame) = self.more.pop_front() {
                return (n, frame);
            }
            n += 1;
            let frames = self.read(1).await;
            self.more.extend(frames);
        }
    }
}

/// How many bytes a link takes by itself.
const CAPACITY: usize = 10_000;

/// What may be in front of a small frame: what the link has taken, and the fragments that were handed to it.
const AHEAD: usize = CAPACITY + 4 * (FRAGMENT + 50) + 500;

#[tokio::test(start_paused = true)]
async fn pings_and_small_calls_pass_a_large_answer() {
    let store = Store::default();
    let both = Both::new(store.clone()).await;
    let mut slow = Slow::new(RawPeer::connect_over(&both.server, CAPACITY).await);
    let len: u32 = 16 << 20;
    slow.peer.send(&[request(0, 0x1002, &to_vec(&Give(len - 4)).unwrap())]).await;
    for round in 1..20 {
        assert_eq!(slow.read(200_000).await, []);
        slow.peer.send(&[frame(Head::plain(FrameKind::Ping), b"?")]).await;
        let (bytes, pong) = slow.bytes_until_next().await;
        assert_eq!(pong.kind, FrameKind::Pong);
        assert!(bytes <= AHEAD, "{bytes} bytes came before the pong");
        slow.peer.send(&[request(round, 0x1001, &to_vec(&Measure(some(64))).unwrap())]).await;
        let (bytes, reply) = slow.bytes_until_next().await;
        assert_eq!((reply.kind, reply.id.get()), (FrameKind::Reply, round));
        assert!(bytes <= AHEAD, "{bytes} bytes came before the reply");
    }
    drop(slow);
    both.server_is_empty().await;
}

#[tokio::test(start_paused = true)]
async fn small_calls_pass_a_large_request() {
    let (peer, session) = RawPeer::accept_over(Options::default(), CAPACITY, 1_000).await;
    let mut slow = Slow::new(peer);
    let large = session.clone();
    let large = tokio::spawn(async move { large.request(Measure(some((16 << 20) - 4))).no_timeout().await });
    for _ in 0..20 {
        assert_eq!(slow.read(100_000).await, []);
        let mut small = pin!(session.request(Measure(some(64))).into_future());
        assert!(poll(small.as_mut()).is_pending());
        let (bytes, request) = slow.bytes_until_next().await;
        assert_eq!((request.kind, request.payload.len()), (FrameKind::Request, 65));
        assert!(bytes <= AHEAD, "{bytes} bytes came before the request");
        let reply = frame(Head::of_call(FrameKind::Reply, request.id), &to_vec(&64u64).unwrap());
        slow.peer.send(&[reply]).await;
        assert_eq!(soon(small).await, Ok(64));
    }
    drop(slow);
    assert!(matches!(large.await.unwrap(), Err(RequestError::Disconnected { maybe_executed: false, .. })));
}

#[tokio::test(start_paused = true)]
async fn a_large_request_that_is_dropped_half_way_leaves_its_slot_to_the_next() {
    let store = Store::default();
    let mut both = Both::new(store.clone()).await;
    both.capacity = 5_000;
    let session = both.client().await;
    for turns in [0, 1, 2, 3, 5, 8] {
        {
            let mut large = pin!(session.request(Measure(some(8 << 20))).into_future());
            assert!(poll(large.as_mut()).is_pending());
            for _ in 0..turns {
                yield_now().await;
            }
            assert!(poll(large.as_mut()).is_pending(), "{turns}");
        }
        let mut queued = pin!(session.request(Measure(some(3 << 20))).into_future());
        assert!(poll(queued.as_mut()).is_pending());
        assert_eq!(soon(queued).await, Ok(3 << 20), "{turns}");
        until("no call is left", || session.connection().calls_in_flight() == 0).await;
    }
    assert_eq!(store.measured.entered(), 6, "none of the others has run");
    assert_eq!(session.request(Measure(some(3))).await, Ok(3));
}

#[tokio::test(start_paused = true)]
async fn a_large_request_that_times_out_half_way_is_given_up() {
    let (peer, session) = RawPeer::accept_over(Options::default(), 1_000, 1_000).await;
    let mut slow = Slow::new(peer);
    let short = std::time::Duration::from_secs(1);
    let late = session.request(Measure(some(1 << 20))).timeout(short).await;
    assert_eq!(late, Err(RequestError::Timeout));
    let given_up = slow.next().await;
    assert_eq!((given_up.kind, given_up.unfinished), (FrameKind::Request, Some(Unfinished::GivenUp)));
    // Its id is in use until the peer has answered.
    assert_eq!(session.connection().calls_in_flight(), 1);
    let mut body = Vec::new();
    nalix_core::frame::encode_status(
        &mut nalix_core::wire::Writer::new(&mut body, 100),
        &nalix_core::Status::new(Code::Cancelled, ""),
    );
    slow.peer.send(&[frame(Head::of_call(FrameKind::Error, given_up.id), &body)]).await;
    until("the id is free", || session.connection().calls_in_flight() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_large_answer_that_nobody_wants_any_more_is_not_sent_to_its_end() {
    let both = Both::new(Store::default()).await;
    let mut slow = Slow::new(RawPeer::connect_over(&both.server, CAPACITY).await);
    slow.peer.send(&[request(3, 0x1002, &to_vec(&Give(8 << 20)).unwrap())]).await;
    slow.peer.send(&[request(4, 0x1002, &to_vec(&Give(2 << 20)).unwrap())]).await;
    assert_eq!(slow.read(100_000).await, []);
    slow.peer.send(&[cancel(3), cancel(4)]).await;
    let mut ends = [slow.next().await, slow.next().await, slow.next().await];
    ends.sort_by_key(|frame| (frame.id.get(), frame.unfinished.is_none()));
    assert_eq!((ends[0].kind, ends[0].unfinished), (FrameKind::Reply, Some(Unfinished::GivenUp)));
    for (end, id) in ends[1..].iter().zip([3, 4]) {
        assert_eq!((end.kind, end.id), (FrameKind::Error, CallId::new(id)));
        assert_eq!(status(&end.payload).code, Code::Cancelled);
    }
    // The slot and the ids can be used again.
    slow.peer.send(&[request(3, 0x1002, &to_vec(&Give(300_000)).unwrap())]).await;
    let reply = slow.next().await;
    assert_eq!((reply.kind, reply.payload.len()), (FrameKind::Reply, 300_003));
}

#[tokio::test(start_paused = true)]
async fn a_link_that_breaks_in_a_request_has_not_executed_it() {
    for (read, whole) in [(0, false), (100_000, false), ((1 << 20) - 80_000, false), (0, true)] {
        let (peer, session) = RawPeer::accept_over(Options::default(), 1_000, 10).await;
        let mut slow = Slow::new(peer);
        let call = tokio::spawn(async move { session.request(Measure(some(1 << 20))).no_timeout().await });
        slow.read(read).await;
        if whole {
            slow.next().await;
        }
        drop(slow);
        match soon(call).await.unwrap() {
            Err(RequestError::Disconnected { maybe_executed: found, .. }) => {
                assert_eq!(found, whole, "after {read} bytes");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_link_that_breaks_in_a_large_message_ends_everything_on_both_sides() {
    let store = Store::default();
    let both = Both::new(store.clone()).await;
    let mut peer = RawPeer::connect(&both.server).await;
    let bytes = large_request(0, 0x1001, &to_vec(&Measure(some(1 << 20))).unwrap());
    peer.write(&bytes[..500_000]).await;
    let end = both.server_end().await;
    drop(peer);
    let reason = soon(end.closed()).await;
    assert!(reason.message.contains("before the end of a"), "{reason}");
    both.server_is_empty().await;
    assert_eq!(store.measured.entered(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_is_over_the_budget_is_refused_and_the_connection_lives() {
    let store = Store::default();
    let mut options = Options::default();
    options.reassembly = 200_000;
    let mut both = Both::with(store.clone(), options.clone()).await;
    both.client_options = options;
    let session = both.client().await;
    let refused = session.request(Measure(some(200_000))).await;
    assert_eq!(refused.unwrap_err().code(), Some(Code::ResourceExhausted));
    assert_eq!(session.request(Measure(some(199_997))).await, Ok(199_997));
    // One-way packets have nobody to be told.
    session.send(&Keep(some(200_000))).await.unwrap();
    session.send(&Keep(some(199_000))).await.unwrap();
    within("the second is kept", store.kept.has_entered(1)).await;
    // Answers that do not fit fail their calls.
    assert_eq!(session.request(Give(200_000)).await.unwrap_err().code(), Some(Code::ResourceExhausted));
    assert_eq!(session.request(Give(199_997)).await.map(|bytes| bytes.len()), Ok(199_997));
    assert_eq!((store.kept.entered(), session.connection().calls_in_flight()), (1, 0));
}

/// Messages count until their handlers are done, however they end.
#[tokio::test(start_paused = true)]
async fn packets_that_handlers_hold_count_towards_the_budget() {
    let store = Store::default();
    let mut options = Options::default();
    options.reassembly = 100_000;
    let both = Both::with(store.clone(), options).await;
    let session = both.client().await;
    let hold = |session: &Session| {
        let session = session.clone();
        tokio::spawn(async move { session.request(Hold(some(60_000))).no_timeout().await })
    };
    for cancelled in [false, true, false] {
        let first = hold(&session);
        within("it runs", store.holding.is(1)).await;
        let refused = session.request(Measure(some(50_000))).await;
        assert_eq!(refused.unwrap_err().code(), Some(Code::ResourceExhausted));
        // What fits a frame is not concerned.
        assert_eq!(session.request(Measure(some(FRAGMENT - 10))).await, Ok(FRAGMENT as u64 - 10));
        if cancelled {
            first.abort();
            within("it is stopped", store.holding.is(0)).await;
        } else {
            store.go().add_permits(1);
            assert_eq!(first.await.unwrap(), Ok(60_000));
        }
        assert_eq!(session.request(Measure(some(50_000))).await, Ok(50_000));
    }
}

/// They have nobody to be told, so their sender has to wait instead.
#[tokio::test(start_paused = true)]
async fn one_way_packets_that_wait_for_a_slow_handler_are_not_lost() {
    let store = Store::default();
    let mut options = Options::default();
    options.reassembly = 200_000;
    let both = Both::with(store.clone(), options).await;
    let session = both.client().await;
    // All are in order behind this one.
    let first = session.clone();
    let first = tokio::spawn(async move { first.request(Wait).no_timeout().await });
    within("it runs", store.holding.is(1)).await;
    for _ in 0..50 {
        session.send(&Keep(some(60_000))).await.unwrap();
    }
    for _ in 0..1_000 {
        yield_now().await;
    }
    assert_eq!(store.kept.entered(), 0);
    store.go().add_permits(1);
    first.await.unwrap().unwrap();
    within("all are kept", store.kept.has_entered(50)).await;
}

#[tokio::test(start_paused = true)]
async fn senders_of_large_messages_wait_for_room_and_hold_up_no_small_one() {
    let mut options = Options::default();
    options.large_outbox = 250_000;
    options.outbox = 100_000;
    let (mut peer, session) = RawPeer::accept_over(options, 1_000, 10).await;
    session.try_send(&Keep(some(100_000))).unwrap();
    session.try_send(&Keep(some(100_000))).unwrap();
    assert_eq!(session.try_send(&Keep(some(100_000))), Err(SendError::Full));
    session.try_send(&Keep(some(100))).unwrap();
    let waiting = session.clone();
    let waiting = tokio::spawn(async move { waiting.send(&Keep(some(220_000))).await });
    let behind = session.clone();
    yield_now().await;
    let behind = tokio::spawn(async move { behind.send(&Keep(some(20_000))).await });
    for _ in 0..20 {
        yield_now().await;
    }
    assert!(!waiting.is_finished() && !behind.is_finished());
    // Nobody of those is in front of a small one.
    within("a small packet goes", session.send(&Keep(some(101)))).await.unwrap();
    let mut lens = Vec::new();
    while lens.len() < 6 {
        let keep = peer.frame().await.unwrap();
        lens.push(keep.payload.len());
    }
    waiting.await.unwrap().unwrap();
    behind.await.unwrap().unwrap();
    lens.sort_unstable();
    assert_eq!(lens, [101, 102, 20_003, 100_003, 100_003, 220_003]);
    // One that is larger than all the room there is goes when it is alone.
    session.send(&Keep(some(1 << 20))).await.unwrap();
    assert_eq!(peer.frame().await.unwrap().payload.len(), (1 << 20) + 3);
}

#[tokio::test(start_paused = true)]
async fn a_close_comes_behind_a_large_message() {
    let store = Store::default();
    let mut both = Both::new(store.clone()).await;
    both.capacity = 3_000;
    let session = both.client().await;
    session.send(&Keep(some(5 << 20))).await.unwrap();
    soon(session.close()).await;
    within("it arrives", store.kept.has_entered(1)).await;
    both.server_is_empty().await;
}

/// A peer that breaks the rules gets the reason, not the rest of what was on its way to it.
#[tokio::test(start_paused = true)]
async fn a_close_for_a_fault_does_not_wait_for_a_large_message() {
    let both = Both::new(Store::default()).await;
    let mut slow = Slow::new(RawPeer::connect_over(&both.server, CAPACITY).await);
    slow.peer.send(&[request(0, 0x1002, &to_vec(&Give(16_000_000)).unwrap())]).await;
    slow.read(50_000).await;
    slow.peer.write(&record(&[vec![0; 10]])).await;
    let (bytes, goodbye) = slow.bytes_until_next().await;
    assert_eq!(goodbye.kind, FrameKind::Control);
    assert!(bytes <= AHEAD, "{bytes}");
}

/// Over real sockets, sealed and not, with what takes the way around the driver.
#[tokio::test]
async fn large_and_small_calls_share_a_socket() {
    let identity = Identity::generate().unwrap();
    let key = identity.public_key();
    for sealed in [false, true] {
        let builder = Server::builder().tcp("127.0.0.1:0").controller(Store::default());
        let server = if sealed { builder.identity(identity.clone()) } else { builder.plaintext() };
        let server = server.build().await.unwrap();
        let url = format!("tcp://{}", server.local_addr());
        let handle = server.handle();
        let serving = tokio::spawn(server.run());
        let client = Client::builder(&url).no_reconnect();
        let client = if sealed { client.server_key(key) } else { client.plaintext() };
        let session = client.connect().await.unwrap();
        assert_eq!(session.request(Measure(some(3 << 20))).await, Ok(3 << 20));
        assert_eq!(session.request(Give(3 << 20)).await.map(|bytes| bytes.len()), Ok(3 << 20));
        let calls: Vec<_> = (0..40)
            .map(|i| {
                let session = session.clone();
                tokio::spawn(async move {
                    let len = if i % 4 == 0 { 1_500_000 } else { 100 };
                    assert_eq!(session.request(Measure(some(len as usize))).await, Ok(len));
                    assert_eq!(session.request(Give(len as u32)).await, Ok(some(len as usize)));
                })
            })
            .collect();
        for call in calls {
            within("all are answered", call).await.unwrap();
        }
        session.close().await;
        handle.shutdown();
        drop(serving);
    }
}
