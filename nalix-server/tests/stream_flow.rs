//! Streams under load and faults: who waits for whom, what is kept, and what ends.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{
    future::IntoFuture,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::Poll,
    time::Duration,
};

use futures_core::Stream;
use nalix_core::{
    CallId, CloseCode,
    frame::{FrameKind, Head},
    wire::to_vec,
};
use nalix_server::{Code, Options, RequestError, StreamError, packet, packet_controller};
use tokio::time::{Instant, sleep};

use support::{Both, Guard, Live, RawPeer, cancel, frame, from_fn, request, soon, until};

/// Numbers from 0, as fast as they are taken.
#[packet(opcode = 0x4001, stream = u64)]
struct Numbers {
    to: u64,
}

/// A blob of that size, again and again.
#[packet(opcode = 0x4002, stream = Vec<u8>)]
struct Blobs {
    size: u32,
}

/// Never has anything.
#[packet(opcode = 0x4003, stream = u64)]
struct Silence;

/// One number a second.
#[packet(opcode = 0x4004, stream = u64)]
struct Seconds;

#[packet(opcode = 0x1001, reply = u64)]
struct Ask(u64);

#[derive(Default, Clone)]
struct Source {
    live: Live,
    /// How many items have been made.
    made: Arc<AtomicU64>,
}

/// Counted while it is there, and so are the items it makes.
struct Counted {
    _guard: Guard,
    made: Arc<AtomicU64>,
}

impl Counted {
    /// Counts one more item, and returns how many there were before.
    fn note(&self) -> u64 {
        self.made.fetch_add(1, Ordering::Relaxed)
    }
}

impl Source {
    fn counted(&self) -> Counted {
        Counted { _guard: self.live.enter(), made: Arc::clone(&self.made) }
    }

    fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }
}

#[packet_controller]
impl Source {
    #[packet]
    fn numbers(&self, numbers: Numbers) -> impl Stream<Item = u64> + use<> {
        let counted = self.counted();
        let mut n = 0;
        from_fn(move |_| {
            n += 1;
            if n > numbers.to {
                return Poll::Ready(None);
            }
            counted.note();
            Poll::Ready(Some(n - 1))
        })
    }

    #[packet]
    fn blobs(&self, blobs: Blobs) -> impl Stream<Item = Vec<u8>> + use<> {
        let counted = self.counted();
        from_fn(move |_| {
            counted.note();
            Poll::Ready(Some(vec![0; blobs.size as usize]))
        })
    }

    #[packet]
    fn silence(&self, _: Silence) -> impl Stream<Item = u64> + use<> {
        let counted = self.counted();
        from_fn(move |_| {
            let _ = &counted;
            Poll::Pending
        })
    }

    #[packet]
    fn seconds(&self, _: Seconds) -> impl Stream<Item = u64> + use<> {
        let counted = self.counted();
        let mut ticks = tokio::time::interval(Duration::from_secs(1));
        from_fn(move |cx| ticks.poll_tick(cx).map(|_| Some(counted.note())))
    }

    #[packet]
    fn ask(&self, ask: Ask) -> u64 {
        ask.0
    }
}

/// Waits until nothing more happens.
async fn settled() {
    sleep(Duration::from_secs(1)).await;
}

const MILLION: u64 = 1_000_000;

#[tokio::test(start_paused = true)]
async fn a_consumer_that_stops_half_way_stops_the_producer() {
    let controller = Source::default();
    let both = Both::new(controller.clone()).await;
    let client = both.client().await;
    let mut items = client.stream(Numbers { to: MILLION }).await.unwrap();
    for n in 0..MILLION / 2 {
        assert_eq!(items.next().await, Some(Ok(n)));
    }
    settled().await;
    let made = controller.made();
    // A number is 9 bytes on the wire, so the window of 64 KiB holds 7,282 of them. The last does not fit all, and one more may
    // have been found not to fit its frame.
    assert!(made - MILLION / 2 <= 7_282 + 2, "{made} items have been made");
    settled().await;
    assert_eq!(controller.made(), made, "nobody takes them, so no more are made");
    assert_eq!(client.request(Ask(1)).await, Ok(1));
    for n in MILLION / 2..MILLION {
        assert_eq!(items.next().await, Some(Ok(n)));
    }
    assert_eq!(items.next().await, None);
    controller.live.is(0).await;
}

#[tokio::test(start_paused = true)]
async fn a_dropped_stream_stops_its_producer_without_another_item() {
    for request in ["silence", "numbers", "unread"] {
        let controller = Source::default();
        let both = Both::new(controller.clone()).await;
        let client = both.client().await;
        let started = Instant::now();
        match request {
            "silence" => {
                let items = client.stream(Silence).await.unwrap();
                controller.live.is(1).await;
                drop(items);
            }
            "numbers" => {
                let mut items = client.stream(Numbers { to: MILLION }).await.unwrap();
                assert_eq!(soon(items.next()).await, Some(Ok(0)));
                drop(items);
            }
            // Not even sent when it is dropped.
            _ => drop(client.stream(Silence).await.unwrap()),
        }
        controller.live.is(0).await;
        until("the call is answered", || client.connection().calls_in_flight() == 0).await;
        assert_eq!(started.elapsed(), Duration::ZERO);
        assert_eq!(client.request(Ask(1)).await, Ok(1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_nobody_reads_holds_nothing_else_up() {
    for capacity in [100, 64 * 1024] {
        let controller = Source::default();
        let mut both = Both::new(controller.clone()).await;
        both.capacity = capacity;
        let client = both.client().await;
        let unread = client.stream(Blobs { size: 1_000 }).await.unwrap();
        for n in 0..100 {
            assert_eq!(soon(client.request(Ask(n)).into_future()).await, Ok(n));
        }
        let mut read = client.stream(Numbers { to: 100_000 }).await.unwrap();
        for n in 0..100_000 {
            assert_eq!(soon(read.next()).await, Some(Ok(n)));
        }
        assert_eq!(soon(read.next()).await, None);
        drop(unread);
        controller.live.is(0).await;
    }
}

#[tokio::test(start_paused = true)]
async fn more_streams_than_may_run_at_once_all_come_to_their_end() {
    let controller = Source::default();
    let mut options = Options::default();
    (options.max_calls, options.stream_window, options.outbox) = (4, 100, 1_000);
    let both = Both::with(controller.clone(), options.clone()).await;
    let client = both.client().await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let client = client.clone();
        tasks.spawn(async move {
            let mut items = client.stream(Numbers { to: 100 }).await.unwrap();
            for n in 0..100 {
                assert_eq!(items.next().await, Some(Ok(n)));
            }
            assert_eq!(items.next().await, None);
        });
    }
    while let Some(done) = soon(tasks.join_next()).await {
        done.unwrap();
    }
    assert!(controller.live.peak() <= 4);
}

#[tokio::test(start_paused = true)]
async fn a_slow_stream_delivers_each_item_when_it_is_there() {
    let both = Both::new(Source::default()).await;
    let client = both.client().await;
    let started = Instant::now();
    let mut items = client.stream(Seconds).await.unwrap();
    for n in 0..100 {
        assert_eq!(soon(items.next()).await, Some(Ok(n)));
        assert_eq!(started.elapsed().as_secs(), n);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_ends_streams_on_both_sides() {
    for server_ends in [true, false] {
        let controller = Source::default();
        let both = Both::new(controller.clone()).await;
        let client = both.client().await;
        let mut silent = client.stream(Silence).await.unwrap();
        let mut numbers = client.stream(Numbers { to: MILLION }).await.unwrap();
        controller.live.is(2).await;
        settled().await;
        match server_ends {
            true => both.server_end().await.abort(),
            false => client.connection().abort(),
        }
        controller.live.is(0).await;
        assert!(matches!(soon(silent.next()).await, Some(Err(StreamError::Disconnected(_)))));
        assert_eq!(soon(silent.next()).await, None);
        // What has arrived is still there.
        assert_eq!(soon(numbers.next()).await, Some(Ok(0)));
        let end = loop {
            match soon(numbers.next()).await {
                Some(Ok(_)) => {}
                end => break end,
            }
        };
        assert!(matches!(end, Some(Err(StreamError::Disconnected(_)))));
        assert!(matches!(client.stream(Silence).await, Err(RequestError::Closed(_))));
    }
}

#[tokio::test(start_paused = true)]
async fn a_drain_waits_for_streams_and_ends_those_that_do_not() {
    let controller = Source::default();
    let both = Both::new(controller.clone()).await;
    let client = both.client().await;
    let mut silent = client.stream(Silence).await.unwrap();
    let mut numbers = client.stream(Numbers { to: 100_000 }).await.unwrap();
    assert_eq!(soon(numbers.next()).await, Some(Ok(0)));
    controller.live.is(2).await;
    both.server_end().await.drain(Duration::from_secs(5));
    for n in 1..100_000 {
        assert_eq!(soon(numbers.next()).await, Some(Ok(n)));
    }
    assert_eq!(soon(numbers.next()).await, None);
    let end = soon(silent.next()).await;
    // It could go on for ever, so it is told instead of cut off.
    assert!(
        matches!(&end, Some(Err(StreamError::Status(status))) if status.code == Code::Unavailable),
        "{end:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn opening_and_cancelling_does_not_get_around_the_limit_on_calls() {
    let controller = Source::default();
    let mut options = Options::default();
    options.max_calls = 16;
    let both = Both::with(controller.clone(), options).await;
    let mut peer = RawPeer::connect(&both.server).await;
    let (silence, asking) = (to_vec(&Silence).unwrap(), to_vec(&Ask(5)).unwrap());
    let pairs: Vec<_> =
        (0..2_000).flat_map(|n| [request(n % 16, 0x4003, &silence), cancel(n % 16)]).collect();
    peer.send(&pairs).await;
    for n in 0..2_000 {
        assert_eq!(peer.status(n % 16).await.code, Code::Cancelled);
    }
    peer.send(&[request(0, 0x1001, &asking)]).await;
    peer.reply(0).await;
    assert!(controller.live.peak() <= 16);
    controller.live.is(0).await;
}

// What peers may and may not send.

fn upload_item(id: u32, payload: &[u8]) -> Vec<u8> {
    frame(Head::of_upload(FrameKind::Item, CallId::new(id)), payload)
}

#[tokio::test(start_paused = true)]
async fn a_stream_on_the_wire_obeys_the_credit_it_is_given() {
    let controller = Source::default();
    let both = Both::new(controller.clone()).await;
    // This peer says nothing of a window, so that each stream starts without credit.
    let mut peer = RawPeer::connect(&both.server).await;
    peer.send(&[request(3, 0x4001, &to_vec(&Numbers { to: 5 }).unwrap())]).await;
    settled().await;
    assert_eq!(controller.made(), 0);
    let credit = |n: u8| frame(Head::of_call(FrameKind::Credit, CallId::new(3)), &[n]);
    // An item takes 9 bytes. What there is credit for is sent, also if that is not a whole item.
    let mut came = Vec::new();
    for granted in [1, 3, 4, 1, 18, 9, 100] {
        peer.send(&[credit(granted)]).await;
        let before = came.len();
        while came.len() < (before + usize::from(granted)).min(45) {
            let frame = peer.frame().await.unwrap();
            assert_eq!((frame.kind, frame.upload, frame.id), (FrameKind::Item, false, CallId::new(3)));
            came.extend_from_slice(&frame.payload);
        }
        assert_eq!(came.len(), (before + usize::from(granted)).min(45), "no more than was granted");
        settled().await;
        let made = controller.made();
        assert!(made <= came.len() as u64 / 9 + 1, "{made} made for {} bytes", came.len());
    }
    let items: Vec<u8> = (0..5u8).flat_map(|n| [8, n, 0, 0, 0, 0, 0, 0, 0]).collect();
    assert_eq!(came, items);
    let end = peer.frame().await.unwrap();
    assert_eq!((end.kind, end.id, end.payload.len()), (FrameKind::End, CallId::new(3), 0));
    // What crosses the end is no fault.
    peer.send(&[credit(100), cancel(3), upload_item(3, &[0])]).await;
    peer.ping().await;
}

#[tokio::test(start_paused = true)]
async fn late_items_are_dropped_and_the_id_is_good_again() {
    let (mut peer, client) = RawPeer::accept(Options::default()).await;
    let items = client.stream(Silence).await.unwrap();
    let asked = peer.frame().await.unwrap();
    assert_eq!(asked.kind, FrameKind::Request);
    drop(items);
    assert_eq!(peer.frame().await.unwrap().kind, FrameKind::Cancel);
    let item = frame(Head::of_call(FrameKind::Item, asked.id), &[8, 0, 0, 0, 0, 0, 0, 0, 0]);
    let end = frame(Head::of_call(FrameKind::End, asked.id), &[]);
    peer.send(&[item.clone(), item.clone(), end, item]).await;
    until("the call is answered", || client.connection().calls_in_flight() == 0).await;
    let again = client.request(Ask(1)).into_future();
    let again = tokio::spawn(again);
    let asked = peer.frame().await.unwrap();
    assert_eq!((asked.kind, asked.id), (FrameKind::Request, CallId::new(0)));
    peer.send(&[frame(Head::of_call(FrameKind::Reply, asked.id), &7u64.to_le_bytes())]).await;
    assert_eq!(soon(again).await.unwrap(), Ok(7));
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_breaks_the_rules_of_streams_is_closed() {
    let item = |payload: &[u8]| frame(Head::of_call(FrameKind::Item, CallId::new(0)), payload);
    let mut big = vec![0xff, 0x7f];
    big.resize(60, 0);
    for (what, frames) in [
        ("items beyond the credit", vec![item(&big), item(&big), item(&[0])]),
        ("no items", vec![item(&[])]),
        (
            "an upload that was not asked for",
            vec![frame(Head::of_upload(FrameKind::Credit, CallId::new(0)), &[1])],
        ),
    ] {
        let mut options = Options::default();
        options.stream_window = 100;
        let (mut peer, client) = RawPeer::accept(options).await;
        let mut items = client.stream(Silence).await.unwrap();
        assert_eq!(peer.frame().await.unwrap().kind, FrameKind::Request);
        peer.send(&frames).await;
        assert_eq!(peer.goodbye().await.code, CloseCode::ProtocolError, "{what}");
        let mut last = soon(items.next()).await;
        while let Some(Ok(_)) | Some(Err(StreamError::Decode(_))) = last {
            last = soon(items.next()).await;
        }
        assert!(matches!(last, Some(Err(StreamError::Disconnected(_))) | None), "{what}: {last:?}");
    }
    for bad in [
        frame(Head::of_call(FrameKind::Credit, CallId::new(0)), &[]),
        frame(Head::of_call(FrameKind::Credit, CallId::new(0)), &[0]),
        frame(Head::of_call(FrameKind::Credit, CallId::new(0)), &[1, 1]),
        frame(Head::of_upload(FrameKind::Cancel, CallId::new(0)), &[1]),
        [vec![0x83], vec![0, 0]].concat(),
    ] {
        let both = Both::new(Source::default()).await;
        let mut peer = RawPeer::connect(&both.server).await;
        peer.send(&[bad]).await;
        assert_eq!(peer.goodbye().await.code, CloseCode::ProtocolError);
    }
}

#[tokio::test(start_paused = true)]
async fn an_item_that_does_not_decode_fails_alone() {
    let (mut peer, client) = RawPeer::accept(Options::default()).await;
    let mut items = client.stream(Silence).await.unwrap();
    let asked = peer.frame().await.unwrap();
    let mut payload = vec![2, 1, 2];
    payload.extend_from_slice(&[9, 7, 0, 0, 0, 0, 0, 0, 0, 99]);
    // The last one has no good length, so that nobody knows where another would start.
    payload.extend_from_slice(&[0x80, 0]);
    peer.send(&[frame(Head::of_call(FrameKind::Item, asked.id), &payload)]).await;
    assert!(matches!(soon(items.next()).await, Some(Err(StreamError::Decode(_)))));
    assert_eq!(soon(items.next()).await, Some(Ok(7)), "bytes behind the last field are a later version's");
    assert!(matches!(soon(items.next()).await, Some(Err(StreamError::Decode(_)))));
    assert_eq!(soon(items.next()).await, None);
    assert_eq!(peer.frame().await.unwrap().kind, FrameKind::Cancel, "what cannot be read on is given up");
}
