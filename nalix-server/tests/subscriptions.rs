//! Subscribing to one-way packets: order, what a slow subscriber misses, who gets what, and how it ends.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context as TaskContext, Poll, Waker},
    time::Duration,
};

use futures_core::{FusedStream, Stream};
use nalix_client::Client;
use nalix_core::{
    frame::{FrameKind, Head},
    link::memory,
};
use nalix_server::{
    CloseCode, Context, Identity, Lag, Lagged, Listener, OneWay, Opcode, Options, Packet, Queue, Sealing,
    Server, Subscription, Wire, packet, packet_controller,
};
use support::{Both, Live, RawPeer, frame, notify, soon};

#[packet(opcode = 0x3001)]
#[derive(Debug, PartialEq)]
struct Tick {
    n: u64,
}

#[packet(opcode = 0x3002)]
#[derive(Debug)]
struct Text(String);

#[packet(opcode = 0x3003, encrypt)]
#[derive(Debug)]
struct Secret(u32);

/// What its decoder has been asked for is counted.
#[packet(opcode = 0x3004)]
#[derive(Debug)]
struct Counted {
    #[wire(with = counted)]
    n: u64,
}

/// Its destructor panics.
#[packet(opcode = 0x3005)]
#[derive(Debug)]
struct Bomb {
    armed: bool,
}

/// Made a packet by hand, so that there is more than one type with the same opcode.
#[derive(Debug, Wire)]
struct Either<T> {
    value: T,
}

impl<T: Wire> Packet for Either<T> {
    const OPCODE: Opcode = Opcode::new(0x3006);
    const NAME: &'static str = "Either";
}

impl<T: Wire> OneWay for Either<T> {}

impl Drop for Bomb {
    fn drop(&mut self) {
        assert!(!self.armed, "on purpose");
    }
}

static DECODED: AtomicU64 = AtomicU64::new(0);

mod counted {
    use nalix_core::{
        error::DecodeError,
        schema::{Describe, SchemaBuilder, Type},
        wire::{Decode, Encode, Reader, Writer},
    };

    pub(super) fn encode(value: &u64, w: &mut Writer<'_>) {
        value.encode(w);
    }

    pub(super) fn decode(r: &mut Reader<'_>) -> Result<u64, DecodeError> {
        super::DECODED.fetch_add(1, super::Ordering::Relaxed);
        u64::decode(r)
    }

    pub(super) fn describe(schema: &mut SchemaBuilder) -> Type {
        u64::describe(schema)
    }
}

#[packet(opcode = 0x1001, reply = u64)]
struct Sync;

/// Sends ticks with these numbers, and then its answer.
#[packet(opcode = 0x1002, reply = ())]
struct Send {
    from: u64,
    to: u64,
}

#[derive(Default)]
struct Lab {
    handled: Arc<AtomicU64>,
}

#[packet_controller]
impl Lab {
    #[connected]
    async fn hello(&self, ctx: &Context) {
        ctx.send(&Text("welcome".to_owned())).await.unwrap();
    }

    #[packet]
    fn sync(&self, _: Sync) -> u64 {
        self.handled.load(Ordering::Relaxed)
    }

    #[packet]
    async fn send(&self, ctx: &Context, send: Send) {
        for n in send.from..send.to {
            ctx.send(&Tick { n }).await.unwrap();
        }
    }

    #[packet]
    fn text(&self, _: Text) {
        self.handled.fetch_add(1, Ordering::Relaxed);
    }
}

/// A client and the server made by hand that pushes to it.
async fn pair() -> (RawPeer, nalix_client::Session) {
    RawPeer::accept(Options::default()).await
}

async fn ticks(peer: &mut RawPeer, numbers: std::ops::Range<u64>) {
    peer.send(&numbers.map(|n| notify(&Tick { n })).collect::<Vec<_>>()).await;
    peer.ping().await;
}

fn waiting(subscription: &mut Subscription<Tick>) -> Vec<Result<u64, u64>> {
    std::iter::from_fn(|| subscription.try_next())
        .map(|next| next.map(|tick| tick.n).map_err(|lagged| lagged.missed))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn pushes_come_in_order() {
    let both = Both::new(Lab::default()).await;
    let session = both.client().await;
    let mut subscription = session.subscribe::<Tick>();
    for round in 0..20 {
        let (from, to) = (round * 50, round * 50 + 50);
        session.request(Send { from, to }).await.unwrap();
        for n in from..to {
            assert_eq!(subscription.next().await.unwrap().unwrap().n, n);
        }
    }
    assert_eq!((subscription.try_next(), subscription.missed()), (None, 0));
}

#[tokio::test(start_paused = true)]
async fn one_who_waits_is_woken() {
    let (mut peer, session) = pair().await;
    let mut subscription = session.subscribe::<Tick>();
    let waiting = tokio::spawn(async move { subscription.next().await.unwrap().unwrap().n });
    tokio::task::yield_now().await;
    ticks(&mut peer, 7..8).await;
    assert_eq!(soon(waiting).await.unwrap(), 7);
}

#[tokio::test(start_paused = true)]
async fn a_slow_subscriber_is_told_how_many_it_has_missed_and_where() {
    let (mut peer, session) = pair().await;
    let mut oldest = session.subscribe_with::<Tick>(Queue::drop_oldest(3));
    let mut newest = session.subscribe_with::<Tick>(Queue::drop_newest(3));
    let mut latest = session.subscribe_with::<Tick>(Queue::latest());
    let mut least = session.subscribe_with::<Tick>(Queue::new(0, Lag::DropOldest));
    let mut usual = session.subscribe::<Tick>();
    ticks(&mut peer, 0..1_000).await;
    assert_eq!(waiting(&mut oldest), [Err(997), Ok(997), Ok(998), Ok(999)]);
    assert_eq!(waiting(&mut newest), [Ok(0), Ok(1), Ok(2), Err(997)]);
    assert_eq!(waiting(&mut latest), [Ok(999)]);
    assert_eq!(waiting(&mut least), [Err(999), Ok(999)]);
    let usual: Vec<_> = waiting(&mut usual);
    assert_eq!((usual.len(), usual[0], usual[256]), (257, Err(744), Ok(999)));
    assert_eq!((oldest.missed(), newest.missed(), latest.missed()), (997, 997, 999));
    // They go on, and count from anew.
    ticks(&mut peer, 1_000..1_004).await;
    assert_eq!(waiting(&mut oldest), [Err(1), Ok(1_001), Ok(1_002), Ok(1_003)]);
    assert_eq!(waiting(&mut newest), [Ok(1_000), Ok(1_001), Ok(1_002), Err(1)]);
    assert_eq!(oldest.missed(), 998);
    assert_eq!(Lagged::to_string(&next_gap(&mut peer, &mut oldest).await), {
        "missed 2 packets: the subscriber was too slow"
    });
}

async fn next_gap(peer: &mut RawPeer, subscription: &mut Subscription<Tick>) -> Lagged {
    ticks(peer, 0..5).await;
    subscription.next().await.unwrap().unwrap_err()
}

#[tokio::test(start_paused = true)]
async fn the_option_sets_how_many_wait() {
    for (set, wait) in [(0, 1), (1, 1), (5, 5), (usize::MAX, 400)] {
        let mut options = Options::default();
        options.push_queue = set;
        let (mut peer, session) = RawPeer::accept(options).await;
        let mut subscription = session.subscribe::<Tick>();
        ticks(&mut peer, 0..400).await;
        assert_eq!(waiting(&mut subscription).iter().filter(|next| next.is_ok()).count(), wait, "{set}");
    }
}

/// The packet is not even `Clone`.
#[tokio::test(start_paused = true)]
async fn a_packet_is_decoded_once_for_all() {
    let (mut peer, session) = pair().await;
    let mut subscriptions: Vec<_> = (0..5).map(|_| session.subscribe::<Counted>()).collect();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let listener = session.on::<Counted>({
        let heard = Arc::clone(&heard);
        move |counted| heard.lock().unwrap().push(counted)
    });
    for n in 1..=10 {
        peer.send(&[notify(&Counted { n })]).await;
        peer.ping().await;
        assert_eq!(DECODED.load(Ordering::Relaxed), n);
        let heard = heard.lock().unwrap().pop().unwrap();
        for subscription in &mut subscriptions {
            let packet = subscription.try_next().unwrap().unwrap();
            assert!(packet.n == n && Arc::ptr_eq(&packet, &heard), "they share it");
        }
    }
    // Nobody decodes what nobody takes.
    drop((subscriptions, listener));
    peer.send(&[notify(&Counted { n: 0 })]).await;
    peer.ping().await;
    assert_eq!(DECODED.load(Ordering::Relaxed), 10);
}

#[tokio::test(start_paused = true)]
async fn a_closure_that_panics_harms_nobody() {
    let (mut peer, session) = pair().await;
    let calls = Arc::new(AtomicUsize::new(0));
    let mut before = session.subscribe::<Tick>();
    let _listener = session.on::<Tick>({
        let calls = Arc::clone(&calls);
        move |tick| {
            calls.fetch_add(1, Ordering::Relaxed);
            assert!(tick.n % 2 == 0, "on purpose");
        }
    });
    let mut after = session.subscribe::<Tick>();
    ticks(&mut peer, 0..6).await;
    assert_eq!(calls.load(Ordering::Relaxed), 6, "it is called again after a panic");
    let all: Vec<_> = (0..6).map(Ok).collect();
    assert_eq!((waiting(&mut before), waiting(&mut after)), (all.clone(), all));
}

#[tokio::test(start_paused = true)]
async fn a_destructor_that_panics_harms_nobody() {
    let (mut peer, session) = pair().await;
    let mut latest = session.subscribe_with::<Bomb>(Queue::latest());
    let mut ticking = session.subscribe::<Tick>();
    peer.send(&[
        notify(&Bomb { armed: false }),
        frame(Head::notify(Opcode::new(0x3005)), &[1]),
        frame(Head::notify(Opcode::new(0x3005)), &[1]),
        notify(&Bomb { armed: false }),
    ])
    .await;
    ticks(&mut peer, 0..1).await;
    assert!(!latest.try_next().unwrap().unwrap().armed);
    // Also where a closure has the last hold of it.
    drop(latest);
    let _listener = session.on::<Bomb>(drop);
    peer.send(&[frame(Head::notify(Opcode::new(0x3005)), &[1])]).await;
    ticks(&mut peer, 1..2).await;
    assert_eq!(waiting(&mut ticking), [Ok(0), Ok(1)]);
}

#[tokio::test(start_paused = true)]
async fn a_subscription_that_is_dropped_gets_no_more() {
    let (mut peer, session) = pair().await;
    let heard = Arc::new(AtomicU64::new(0));
    let count = |heard: &Arc<AtomicU64>| {
        let heard = Arc::clone(heard);
        move |_: Arc<Tick>| {
            heard.fetch_add(1, Ordering::Relaxed);
        }
    };
    let subscription = session.subscribe::<Tick>();
    let listener = session.on(count(&heard));
    let mut stays = session.subscribe::<Tick>();
    ticks(&mut peer, 0..3).await;
    drop(subscription);
    ticks(&mut peer, 3..4).await;
    assert_eq!(heard.load(Ordering::Relaxed), 4);
    drop(listener);
    ticks(&mut peer, 4..6).await;
    assert_eq!(heard.load(Ordering::Relaxed), 4);
    assert_eq!(waiting(&mut stays).len(), 6);
    assert_eq!(session.unclaimed(), 0);
    drop(stays);
    ticks(&mut peer, 6..9).await;
    assert_eq!(session.unclaimed(), 3);
    // One that is kept listens on without its guard.
    session.on(count(&heard)).keep();
    ticks(&mut peer, 9..11).await;
    assert_eq!((heard.load(Ordering::Relaxed), session.unclaimed()), (6, 3));
}

/// Everything that a closure may do with the table it is called from.
#[tokio::test(start_paused = true)]
async fn a_closure_may_subscribe_and_unsubscribe_itself_included() {
    let (mut peer, session) = pair().await;
    let mine: Arc<Mutex<Option<Listener>>> = Arc::default();
    let made: Arc<Mutex<Vec<Subscription<Tick>>>> = Arc::default();
    let calls = Arc::new(AtomicUsize::new(0));
    let other = Arc::new(Mutex::new(Some(session.on::<Tick>({
        let calls = Arc::clone(&calls);
        move |_| {
            calls.fetch_add(100, Ordering::Relaxed);
        }
    }))));
    let closure = {
        let (mine, made, calls, other) =
            (Arc::clone(&mine), Arc::clone(&made), Arc::clone(&calls), Arc::clone(&other));
        let connection = session.connection();
        move |_: Arc<Tick>| {
            calls.fetch_add(1, Ordering::Relaxed);
            made.lock().unwrap().push(connection.subscribe());
            drop(other.lock().unwrap().take());
            drop(mine.lock().unwrap().take());
        }
    };
    *mine.lock().unwrap() = Some(session.on(closure));
    ticks(&mut peer, 0..3).await;
    assert_eq!(calls.load(Ordering::Relaxed), 101, "each was called for the first alone");
    let mut made = made.lock().unwrap();
    assert_eq!(made.len(), 1);
    assert_eq!(waiting(&mut made[0]), [Ok(1), Ok(2)]);
}

/// One that is unsubscribed by a closure before it is not called for the same packet any more.
#[tokio::test(start_paused = true)]
async fn no_call_begins_after_the_guard_is_dropped() {
    let (mut peer, session) = pair().await;
    let victim: Arc<Mutex<Option<Listener>>> = Arc::default();
    let calls = Arc::new(AtomicUsize::new(0));
    let _first = session.on::<Tick>({
        let victim = Arc::clone(&victim);
        move |_| drop(victim.lock().unwrap().take())
    });
    *victim.lock().unwrap() = Some(session.on::<Tick>({
        let calls = Arc::clone(&calls);
        move |_| {
            calls.fetch_add(1, Ordering::Relaxed);
        }
    }));
    ticks(&mut peer, 0..2).await;
    assert_eq!(calls.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn subscriptions_end_with_the_session_and_what_waits_comes_first() {
    let (mut peer, session) = pair().await;
    let held = Live::default();
    session.on::<Tick>(holding(held.enter())).keep();
    let mut subscription = session.subscribe_with::<Tick>(Queue::drop_newest(1));
    let mut idle = session.subscribe::<Text>();
    let waiting = tokio::spawn(async move { idle.next().await.is_none() });
    ticks(&mut peer, 0..2).await;
    drop(peer);
    assert_eq!(session.closed().await.code, CloseCode::Lost);
    assert!(soon(waiting).await.unwrap());
    assert_eq!(subscription.next().await.unwrap().unwrap().n, 0);
    assert_eq!(subscription.next().await.unwrap().unwrap_err().missed, 1);
    assert!(!subscription.is_terminated());
    assert!(subscription.next().await.is_none() && subscription.next().await.is_none());
    assert!(subscription.is_terminated());
    // What a closure holds is let go.
    held.is(0).await;
    // Too late.
    assert!(session.subscribe::<Tick>().next().await.is_none());
    let listener = session.on::<Tick>(holding(held.enter()));
    held.is(0).await;
    listener.keep();
}

/// A closure that has captured a guard.
fn holding(guard: support::Guard) -> impl FnMut(Arc<Tick>) + std::marker::Send {
    move |_| {
        let _held = &guard;
    }
}

#[tokio::test(start_paused = true)]
async fn it_is_a_stream() {
    let (mut peer, session) = pair().await;
    let mut subscription = session.subscribe::<Tick>();
    ticks(&mut peer, 4..5).await;
    let mut cx = TaskContext::from_waker(Waker::noop());
    match Pin::new(&mut subscription).poll_next(&mut cx) {
        Poll::Ready(Some(Ok(tick))) => assert_eq!(*tick, Tick { n: 4 }),
        other => panic!("{other:?}"),
    }
    assert!(Pin::new(&mut subscription).poll_next(&mut cx).is_pending());
    session.close().await;
    assert!(matches!(Pin::new(&mut subscription).poll_next(&mut cx), Poll::Ready(None)));
}

/// A subscription does not keep its session open.
#[tokio::test(start_paused = true)]
async fn the_last_session_ends_its_subscriptions() {
    let both = Both::new(Lab::default()).await;
    let session = both.client().await;
    let mut subscription = session.subscribe::<Tick>();
    drop(session);
    assert!(soon(subscription.next()).await.is_none());
    both.server_is_empty().await;
}

#[tokio::test(start_paused = true)]
async fn what_nobody_takes_is_counted_and_no_fault() {
    let (mut peer, session) = pair().await;
    let mut other = session.subscribe::<Text>();
    for n in 1..=1_000 {
        peer.send(&[notify(&Tick { n }), frame(Head::notify(Opcode::new(0xffff)), b"\xff")]).await;
    }
    peer.ping().await;
    assert_eq!((session.unclaimed(), session.connection().malformed_pushes()), (2_000, 0));
    assert!(other.try_next().is_none());

    let both = Both::new(Lab::default()).await;
    let client = both.client().await;
    client.send(&Tick { n: 1 }).await.unwrap();
    client.send(&Text("served".to_owned())).await.unwrap();
    assert_eq!(client.request(Sync).await, Ok(1));
    assert_eq!(both.server_end().await.unclaimed(), 1);
}

#[tokio::test(start_paused = true)]
async fn malformed_pushes_are_counted_and_only_too_many_end_the_connection() {
    let mut options = Options::default();
    options.max_malformed = 5;
    let (mut peer, session) = RawPeer::accept(options).await;
    let bad = || frame(Head::notify(Opcode::new(0x3002)), &[1, 0xff]);
    // Nobody reads what nobody takes.
    peer.send(&(0..20).map(|_| bad()).collect::<Vec<_>>()).await;
    peer.ping().await;
    let (mut one, mut two) = (session.subscribe::<Text>(), session.subscribe::<Text>());
    peer.send(&[bad(), notify(&Text("good".to_owned())), bad(), bad(), bad(), bad()]).await;
    peer.ping().await;
    assert_eq!(session.connection().malformed_pushes(), 5, "once, whoever is subscribed");
    assert_eq!(one.try_next().unwrap().unwrap().0, "good");
    assert_eq!(two.try_next().unwrap().unwrap().0, "good");
    assert!(one.try_next().is_none());
    peer.send(&[bad()]).await;
    assert_eq!(peer.goodbye().await.code, CloseCode::LimitExceeded);
    assert!(soon(one.next()).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_packet_with_a_handler_goes_to_both() {
    let lab = Lab::default();
    let handled = Arc::clone(&lab.handled);
    let both = Both::new(lab).await;
    let client = both.client().await;
    let end = both.server_end().await;
    let mut subscription = end.subscribe::<Text>();
    for _ in 0..3 {
        client.send(&Text("hi".to_owned())).await.unwrap();
    }
    assert_eq!(client.request(Sync).await, Ok(3));
    assert_eq!(std::iter::from_fn(|| subscription.try_next()).count(), 3);
    assert_eq!((handled.load(Ordering::Relaxed), end.unclaimed()), (3, 0));
}

#[tokio::test(start_paused = true)]
async fn a_packet_that_must_come_sealed_is_not_taken_in_the_clear() {
    let (mut peer, session) = pair().await;
    let mut subscription = session.subscribe::<Secret>();
    peer.send(&[notify(&Secret(1))]).await;
    peer.ping().await;
    assert_eq!((subscription.try_next().is_none(), session.unclaimed()), (true, 1));
}

#[tokio::test(start_paused = true)]
async fn a_packet_that_must_come_sealed_is_taken_where_it_does() {
    for sealing in [Sealing::All, Sealing::Marked] {
        let identity = Identity::generate().unwrap();
        let key = identity.public_key();
        let server = Server::builder().identity(identity).sealing(sealing).no_listener();
        let server = server.controller(Lab::default()).build().await.unwrap().handle();
        let (ours, theirs) = memory::pair(1 << 16);
        server.serve_link(theirs);
        let client = Client::builder("").server_key(key).sealing(sealing);
        let session = client.connect_over(ours).await.unwrap();
        let (mut secret, mut open) = (session.subscribe::<Secret>(), session.subscribe::<Tick>());
        session.request(Sync).await.unwrap();
        let end = server.connections().remove(0);
        end.send(&Secret(5)).await.unwrap();
        end.send(&Tick { n: 6 }).await.unwrap();
        assert_eq!(soon(secret.next()).await.unwrap().unwrap().0, 5, "{sealing:?}");
        assert_eq!(soon(open.next()).await.unwrap().unwrap().n, 6, "{sealing:?}");
    }
}

/// As handlers do not get what comes behind a notice that this side is about to close.
#[tokio::test(start_paused = true)]
async fn what_comes_while_this_side_drains_is_dropped() {
    let (mut peer, session) = pair().await;
    let mut subscription = session.subscribe::<Tick>();
    // It keeps the connection from being drained at once.
    let call = tokio::spawn({
        let session = session.clone();
        async move { session.request(Sync).await }
    });
    assert_eq!(peer.frame().await.unwrap().kind, FrameKind::Request);
    ticks(&mut peer, 0..1).await;
    session.connection().drain(Duration::from_secs(5));
    assert_eq!(peer.frame().await.unwrap().kind, FrameKind::Control);
    ticks(&mut peer, 1..4).await;
    assert_eq!((waiting(&mut subscription), session.unclaimed()), (vec![Ok(0)], 3));
    assert!(call.await.unwrap().is_err());
    assert!(soon(subscription.next()).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn types_of_one_opcode_are_told_apart() {
    let (mut peer, session) = pair().await;
    let mut number = session.subscribe::<Either<u8>>();
    let mut flag = session.subscribe::<Either<bool>>();
    let mut again = session.subscribe::<Either<u8>>();
    peer.send(&[notify(&Either { value: 1u8 }), notify(&Either { value: 7u8 })]).await;
    peer.ping().await;
    for subscription in [&mut number, &mut again] {
        assert_eq!(subscription.try_next().unwrap().unwrap().value, 1);
        assert_eq!(subscription.try_next().unwrap().unwrap().value, 7);
    }
    assert!(flag.try_next().unwrap().unwrap().value);
    assert!(flag.try_next().is_none());
    assert_eq!(session.connection().malformed_pushes(), 1, "7 is no bool");
}

/// The server sends it from its hook, so that it may be there before the session is.
#[tokio::test(start_paused = true)]
async fn a_closure_of_the_builder_hears_the_very_first_push() {
    let both = Both::new(Lab::default()).await;
    let (ours, theirs) = memory::pair(1 << 16);
    both.server.serve_link(theirs);
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let client = Client::builder("").plaintext().on::<Text>({
        let heard = Arc::clone(&heard);
        move |text| heard.lock().unwrap().push(text.0.clone())
    });
    let session = client.connect_over(ours).await.unwrap();
    session.request(Sync).await.unwrap();
    assert_eq!(*heard.lock().unwrap(), ["welcome"]);
    assert_eq!(session.unclaimed(), 0);
}

/// Subscriptions come and go while packets do. Each sees a run without holes but those it is told of.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn subscriptions_that_come_and_go_see_runs_without_holes() {
    let both = Both::new(Lab::default()).await;
    let session = both.client().await;
    let churn: Vec<_> = (0..4u64)
        .map(|task| {
            let session = session.clone();
            tokio::spawn(async move {
                let mut seen = 0;
                for round in 0..200 {
                    let queue =
                        if (round + task) % 2 == 0 { Queue::drop_oldest(4) } else { Queue::drop_newest(4) };
                    let mut subscription = session.subscribe_with::<Tick>(queue);
                    let listener = session.on::<Tick>(|_| ());
                    let mut at = None;
                    for _ in 0..20 {
                        match subscription.next().await {
                            Some(Ok(tick)) => {
                                assert!(at.is_none_or(|at| at == tick.n), "{at:?}, {}", tick.n);
                                at = Some(tick.n + 1);
                                seen += 1;
                            }
                            Some(Err(lagged)) => at = at.map(|at| at + lagged.missed),
                            None => return seen,
                        }
                    }
                    drop(listener);
                }
                seen
            })
        })
        .collect();
    let mut n = 0;
    while churn.iter().any(|task| !task.is_finished()) {
        session.request(Send { from: n, to: n + 50 }).await.unwrap();
        n += 50;
    }
    for task in churn {
        assert!(task.await.unwrap() > 0);
    }
    session.close().await;
}
