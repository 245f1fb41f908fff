//! Items and opening packets that fit no frame: they come whole, hold nothing up, and cost what has come of them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{future::IntoFuture, pin::pin, task::Poll, time::Duration};

use bytes::Bytes;
use futures_core::Stream;
use nalix_core::{
    CallId,
    frame::{FrameKind, Head},
    wire::{to_vec, varint},
};
use nalix_server::{
    Code, Incoming, Options, RequestError, SendError, StreamError, packet, packet_controller,
};
use tokio::sync::Semaphore;

use support::{Both, Live, RawPeer, cancel, frame, from_fn, large_request, request, soon, until};

/// Blobs of these lengths.
#[packet(opcode = 0x4201, stream = Bytes)]
struct Give {
    lens: Vec<u32>,
    _ballast: Bytes,
}

/// The lengths of the chunks, if each holds what it should.
#[packet(opcode = 0x4202, upload = Bytes, reply = Vec<u32>)]
struct Take {
    ballast: Bytes,
}

#[packet(opcode = 0x4203, upload = Bytes, stream = Bytes)]
struct Echo {
    ballast: Bytes,
}

/// As `Take`, but reads only when it is let.
#[packet(opcode = 0x4204, upload = Bytes, reply = Vec<u32>)]
struct TakeLater;

#[packet(opcode = 0x4205, stream = Bytes)]
struct Never;

#[packet(opcode = 0x1001, reply = u64)]
struct Ask(u64);

#[derive(Clone, Default)]
struct Store {
    live: Live,
    go: std::sync::Arc<std::sync::OnceLock<Semaphore>>,
}

impl Store {
    fn go(&self) -> &Semaphore {
        self.go.get_or_init(|| Semaphore::new(0))
    }
}

/// A blob in which no two places look alike.
fn blob(len: u32) -> Bytes {
    (0..len).map(|n| (n.wrapping_mul(31) ^ (n >> 8)) as u8).collect::<Vec<_>>().into()
}

async fn take(mut chunks: Incoming<Bytes>) -> Vec<u32> {
    let mut lens = Vec::new();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.unwrap();
        assert!(chunk == blob(chunk.len() as u32));
        lens.push(chunk.len() as u32);
    }
    lens
}

#[packet_controller]
impl Store {
    #[packet]
    fn give(&self, give: Give) -> impl Stream<Item = Bytes> + use<> {
        let guard = self.live.enter();
        let mut lens = give.lens.into_iter();
        from_fn(move |_| {
            let _ = &guard;
            Poll::Ready(lens.next().map(blob))
        })
    }

    #[packet(concurrent)]
    async fn take(&self, packet: Take, chunks: Incoming<Bytes>) -> Vec<u32> {
        assert!(packet.ballast == blob(packet.ballast.len() as u32));
        take(chunks).await
    }

    #[packet(concurrent)]
    async fn take_later(&self, _: TakeLater, chunks: Incoming<Bytes>) -> Vec<u32> {
        let _guard = self.live.enter();
        self.go().acquire().await.unwrap().forget();
        take(chunks).await
    }

    #[packet]
    fn echo(&self, echo: Echo, mut chunks: Incoming<Bytes>) -> impl Stream<Item = Bytes> + use<> {
        assert!(echo.ballast == blob(echo.ballast.len() as u32));
        let guard = self.live.enter();
        from_fn(move |cx| {
            let _ = &guard;
            std::pin::Pin::new(&mut chunks).poll_next(cx).map(|chunk| chunk.and_then(Result::ok))
        })
    }

    #[packet]
    fn never(&self, _: Never) -> impl Stream<Item = Bytes> + use<> {
        from_fn(|_| Poll::Pending)
    }

    #[packet]
    fn ask(&self, ask: Ask) -> u64 {
        ask.0
    }
}

fn give(lens: &[u32]) -> Give {
    Give { lens: lens.to_vec(), _ballast: Bytes::new() }
}

const LENS: [u32; 13] =
    [0, 16_379, 16_380, 16_381, 16_384, 1, 16_385, 16_390, 40_000, 5, 65_536, 300_000, 16_000];

#[tokio::test(start_paused = true)]
async fn items_that_fit_no_frame_come_whole_between_small_ones() {
    for (capacity, window) in
        [(1_000, 64 * 1024), (64 * 1024, 64 * 1024), (64 * 1024, 100), (64 * 1024, 1 << 20)]
    {
        let mut options = Options::default();
        options.stream_window = window;
        let mut both = Both::with(Store::default(), options.clone()).await;
        (both.capacity, both.client_options) = (capacity, options);
        let client = both.client().await;
        let mut items = client.stream(give(&LENS)).await.unwrap();
        for len in LENS {
            let item = soon(items.next()).await.unwrap().unwrap();
            assert!(item == blob(len), "{len}");
        }
        assert_eq!(soon(items.next()).await, None);

        let mut upload = client.upload(Take { ballast: Bytes::new() }).await.unwrap();
        for len in LENS {
            soon(upload.send(&blob(len))).await.unwrap();
        }
        assert_eq!(soon(upload.finish()).await.unwrap(), LENS);

        let (mut chunks, mut items) = client.duplex(Echo { ballast: Bytes::new() }).await.unwrap();
        let sent = async {
            for len in LENS {
                chunks.send(&blob(len)).await.unwrap();
            }
            chunks.finish().unwrap();
        };
        let came = async {
            for len in LENS {
                assert!(items.next().await.unwrap().unwrap() == blob(len), "{len}");
            }
            assert_eq!(items.next().await, None);
        };
        soon(async { tokio::join!(sent, came) }).await;
        assert_eq!(client.connection().calls_in_flight(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn an_item_as_long_as_a_message_comes_and_a_longer_one_does_not() {
    let mut options = Options::default();
    (options.max_message, options.max_send) = (1 << 20, 1 << 20);
    let both = Both::with(Store::default(), options).await;
    let client = both.client().await;
    // Bytes have their length in front, which counts.
    let (good, bad) = ((1 << 20) - 3, (1 << 20) - 2);
    let mut items = client.stream(give(&[good, bad])).await.unwrap();
    assert!(soon(items.next()).await.unwrap().unwrap() == blob(good));
    let refused = soon(items.next()).await.unwrap().unwrap_err();
    assert_eq!(refused.code(), Some(Code::ResourceExhausted));
    assert_eq!(soon(items.next()).await, None);
    let mut upload = client.upload(Take { ballast: Bytes::new() }).await.unwrap();
    assert_eq!(soon(upload.send(&blob(bad))).await, Err(SendError::TooLarge { limit: 1 << 20 }));
    soon(upload.send(&blob(good))).await.unwrap();
    assert_eq!(soon(upload.finish()).await, Ok(vec![good]));
}

#[tokio::test(start_paused = true)]
async fn packets_that_open_streams_may_be_large_and_nothing_overtakes_them() {
    for capacity in [1_000, 64 * 1024] {
        let mut both = Both::new(Store::default()).await;
        both.capacity = capacity;
        let client = both.client().await;
        let ballast = blob(100_000);
        let packet = Give { lens: vec![3, 20_000], _ballast: ballast.clone() };
        let mut items = client.stream(packet).await.unwrap();
        assert_eq!(soon(items.next()).await, Some(Ok(blob(3))));
        assert_eq!(soon(items.next()).await, Some(Ok(blob(20_000))));
        assert_eq!(soon(items.next()).await, None);

        // Chunks that are ready long before the packet has gone, and an end without any.
        let mut upload = client.upload(Take { ballast: ballast.clone() }).await.unwrap();
        for len in [1, 2, 30_000] {
            soon(upload.send(&blob(len))).await.unwrap();
        }
        assert_eq!(soon(upload.finish()).await, Ok(vec![1, 2, 30_000]));
        let upload = client.upload(Take { ballast: ballast.clone() }).await.unwrap();
        assert_eq!(soon(upload.finish()).await, Ok(vec![]));

        let (mut chunks, mut items) = client.duplex(Echo { ballast: ballast.clone() }).await.unwrap();
        soon(chunks.send(&blob(7))).await.unwrap();
        chunks.finish().unwrap();
        assert_eq!(soon(items.next()).await, Some(Ok(blob(7))));
        assert_eq!(soon(items.next()).await, None);
        assert_eq!(client.connection().calls_in_flight(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_large_opening_that_is_dropped_on_its_way_leaves_nothing() {
    let controller = Store::default();
    let mut both = Both::new(controller.clone()).await;
    both.capacity = 1_000;
    let client = both.client().await;
    let ballast = blob(1_000_000);
    for turns in [0, 1, 10, 300] {
        let items = client.stream(Give { lens: vec![9], _ballast: ballast.clone() }).await.unwrap();
        let upload = client.upload(Take { ballast: ballast.clone() }).await.unwrap();
        let mut both_ways = client.duplex(Echo { ballast: ballast.clone() }).await.unwrap();
        soon(both_ways.0.send(&blob(100))).await.unwrap();
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
        drop((items, upload, both_ways));
        until("the calls are over", || client.connection().calls_in_flight() == 0).await;
        assert_eq!(soon(client.request(Ask(turns)).into_future()).await, Ok(turns));
    }
    controller.live.is(0).await;
}

/// B22: a large message starves small calls.
#[tokio::test(start_paused = true)]
async fn large_items_do_not_starve_small_calls() {
    let both = Both::new(Store::default()).await;
    // So little that the order in which things are sent can be seen.
    let mut peer = RawPeer::connect_over(&both.server, 1_000).await;
    let packet = to_vec(&give(&[8_000_000, 8_000_000])).unwrap();
    let credit = |id, n: u32| {
        let mut buf = [0; varint::MAX_LEN];
        let len = varint::put(n.into(), &mut buf);
        frame(Head::of_call(FrameKind::Credit, CallId::new(id)), &buf[..len])
    };
    // All of both at once, as far as credit goes.
    let asked = [request(1, 0x4201, &packet), request(2, 0x4201, &packet)];
    peer.send(&asked).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    peer.send(&[credit(1, 16_000_008), credit(2, 16_000_008)]).await;
    let mut items = [0usize; 3];
    for n in 0..20u64 {
        peer.send(&[request(0, 0x1001, &n.to_le_bytes())]).await;
        let mut before = 0;
        loop {
            let frame = peer.frame().await.unwrap();
            match frame.kind {
                FrameKind::Reply => break assert_eq!(frame.payload, n.to_le_bytes()[..]),
                _ => before += frame.payload.len(),
            }
            items[frame.id.get() as usize] += frame.payload.len();
        }
        // What one turn may take out of the outbox, and what had been taken by then.
        assert!(before < 600 * 1024, "{before} bytes before the answer to {n}");
    }
    while items[1] + items[2] < 32_000_000 {
        let frame = peer.frame().await.unwrap();
        items[frame.id.get() as usize] += frame.payload.len();
        let [_, one, two] = items;
        assert!(one.abs_diff(two) < 1 << 20 || one.max(two) > 15_000_000, "each has its turn: {one}, {two}");
    }
}

fn item(id: CallId, bytes: &[u8]) -> Vec<u8> {
    frame(Head::of_call(FrameKind::Item, id), bytes)
}

fn announced(len: u64) -> Vec<u8> {
    let mut buf = [0; varint::MAX_LEN];
    let n = varint::put(len, &mut buf);
    buf[..n].to_vec()
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_ends_in_the_middle_of_an_item_is_not_taken_for_whole() {
    for how in ["end", "error", "lost"] {
        let (mut peer, client) = RawPeer::accept(Options::default()).await;
        let mut items = client.stream(Never).await.unwrap();
        let asked = peer.frame().await.unwrap().id;
        // A whole one, and half of one of 9 bytes.
        let bytes = [&[2, 1, 7, 10, 9][..], &[1; 4]].concat();
        let end = match how {
            "end" => vec![frame(Head::of_call(FrameKind::End, asked), &[])],
            "error" => vec![frame(Head::of_call(FrameKind::Error, asked), &[0, 5, 0, 0])],
            _ => Vec::new(),
        };
        peer.send(&[vec![item(asked, &bytes)], end].concat()).await;
        assert_eq!(soon(items.next()).await, Some(Ok(Bytes::from_static(&[7]))));
        if how == "lost" {
            drop(peer);
        }
        match (how, soon(items.next()).await.unwrap().unwrap_err()) {
            ("end", StreamError::Decode(error)) => assert!(error.to_string().contains("middle")),
            ("error", error) => assert_eq!(error.code(), Some(Code::NotFound)),
            ("lost", StreamError::Disconnected(_)) => {}
            other => panic!("{other:?}"),
        }
        assert_eq!(soon(items.next()).await, None);
    }
}

#[tokio::test(start_paused = true)]
async fn an_item_announced_over_the_limit_ends_its_stream_at_once() {
    let (mut peer, client) = RawPeer::accept(Options::default()).await;
    let mut items = client.stream(Never).await.unwrap();
    let asked = peer.frame().await.unwrap().id;
    peer.send(&[item(asked, &announced((16 << 20) + 1))]).await;
    assert!(matches!(soon(items.next()).await, Some(Err(StreamError::Decode(_)))));
    assert_eq!(soon(items.next()).await, None);
    assert_eq!(peer.frame().await.unwrap().kind, FrameKind::Cancel);
}

#[tokio::test(start_paused = true)]
async fn items_that_are_put_together_share_a_budget() {
    let mut options = Options::default();
    // With so few calls, each stream starts with all of its window.
    (options.reassembly, options.max_calls) = (100_000, 10);
    let (mut peer, client) = RawPeer::accept(options).await;
    let half = |id| item(id, &[announced(60_003), announced(60_000), vec![7; 3]].concat());
    let mut streams = Vec::new();
    for _ in 0..2 {
        let items = client.stream(Never).await.unwrap();
        streams.push((items, peer.frame().await.unwrap().id));
    }
    let (mut first, one) = streams.remove(0);
    peer.send(&[half(one)]).await;
    {
        let mut next = pin!(first.next());
        // Lets it begin.
        let polled = tokio::time::timeout(Duration::from_secs(1), next.as_mut()).await;
        assert!(polled.is_err());
        let (mut second, two) = streams.remove(0);
        peer.send(&[half(two)]).await;
        let refused = soon(second.next()).await.unwrap().unwrap_err();
        assert_eq!(refused.code(), Some(Code::ResourceExhausted));
        assert_eq!(soon(second.next()).await, None);
        let cancelled = peer.frame().await.unwrap();
        assert_eq!((cancelled.kind, cancelled.id), (FrameKind::Cancel, two));
        peer.send(&[frame(Head::of_call(FrameKind::End, two), &[])]).await;
    }
    // The first is as it was, though nobody asks for it any more.
    peer.send(&[item(one, &[7; 10_000]), item(one, &[7; 10_000])]).await;
    for _ in 0..3 {
        assert!(tokio::time::timeout(Duration::from_secs(1), first.next()).await.is_err());
    }
    peer.send(&[item(one, &[7; 16_384]), item(one, &[7; 16_384])]).await;
    peer.send(&[item(one, &[7; 60_000 - 3 - 52_768])]).await;
    assert_eq!(soon(first.next()).await, Some(Ok(vec![7; 60_000].into())));
    // What it took is there again, also if a half item is dropped.
    for _ in 0..3 {
        let mut third = client.stream(Never).await.unwrap();
        let id = loop {
            let frame = peer.frame().await.unwrap();
            if frame.kind == FrameKind::Request {
                break frame.id;
            }
        };
        peer.send(&[half(id)]).await;
        let polled = tokio::time::timeout(Duration::from_secs(1), third.next()).await;
        assert!(polled.is_err(), "{polled:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn large_items_that_wait_for_credit_are_bounded() {
    let controller = Store::default();
    let mut options = Options::default();
    options.large_outbox = 100_000;
    let both = Both::with(controller.clone(), options).await;
    // It says nothing of a window.
    let mut peer = RawPeer::connect(&both.server).await;
    let packet = to_vec(&give(&[80_000])).unwrap();
    let credit = |id: u32| frame(Head::of_call(FrameKind::Credit, CallId::new(id)), &[1]);
    peer.send(&[request(0, 0x4201, &packet)]).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    peer.send(&[credit(0)]).await;
    assert_eq!(peer.frame().await.unwrap().payload.len(), 1);
    peer.send(&[request(1, 0x4201, &packet)]).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    peer.send(&[credit(1)]).await;
    assert_eq!(peer.status(1).await.code, Code::ResourceExhausted);
    controller.live.is(1).await;
    // Who gives up makes room.
    peer.send(&[cancel(0)]).await;
    assert_eq!(peer.status(0).await.code, Code::Cancelled);
    peer.send(&[request(1, 0x4201, &packet)]).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    peer.send(&[credit(1)]).await;
    assert_eq!(peer.frame().await.unwrap().payload.len(), 1);
    peer.ping().await;
}

#[tokio::test(start_paused = true)]
async fn an_upload_that_is_finished_while_it_waits_for_credit_is_whole() {
    let controller = Store::default();
    let both = Both::new(controller.clone()).await;
    let client = both.client().await;
    let mut upload = client.upload(TakeLater).await.unwrap();
    soon(upload.send(&blob(500_000))).await.unwrap();
    // There is no room for another, and one that is dropped has sent nothing.
    let more = tokio::time::timeout(Duration::from_secs(5), upload.send(&blob(7))).await;
    assert!(more.is_err());
    assert_eq!(soon(client.request(Ask(1)).into_future()).await, Ok(1), "what waits holds nothing up");
    controller.go().add_permits(1);
    assert_eq!(soon(upload.finish()).await, Ok(vec![500_000]));
}

#[tokio::test(start_paused = true)]
async fn a_large_chunk_that_waits_ends_with_its_call_or_connection() {
    for how in ["deadline", "drop", "lost"] {
        let controller = Store::default();
        let both = Both::new(controller.clone()).await;
        let client = both.client().await;
        let mut upload = client.upload(TakeLater).timeout(Duration::from_secs(5)).await.unwrap();
        soon(upload.send(&blob(500_000))).await.unwrap();
        controller.live.is(1).await;
        match how {
            "deadline" => assert_eq!(soon(upload.finish()).await, Err(RequestError::Timeout)),
            "drop" => drop(upload),
            _ => {
                both.server_end().await.abort();
                let lost = soon(upload.finish()).await;
                assert!(matches!(lost, Err(RequestError::Disconnected { .. })), "{lost:?}");
            }
        }
        controller.live.is(0).await;
        if how != "lost" {
            until("the call is over", || client.connection().calls_in_flight() == 0).await;
            assert_eq!(soon(client.request(Ask(1)).into_future()).await, Ok(1));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_large_opening_from_a_stranger_is_put_together_and_served() {
    let both = Both::new(Store::default()).await;
    let mut peer = RawPeer::connect(&both.server).await;
    let packet = to_vec(&Take { ballast: blob(50_000) }).unwrap();
    peer.write(&large_request(3, 0x4202, &packet)).await;
    let upload = |kind| Head::of_upload(kind, CallId::new(3));
    peer.send(&[frame(upload(FrameKind::Item), &[1, 0]), frame(upload(FrameKind::End), &[])]).await;
    assert_eq!(peer.reply(3).await[..], [1, 0, 0, 0, 0]);
}

#[tokio::test(start_paused = true)]
async fn a_close_in_the_middle_of_an_item_ends_the_connection_in_time() {
    for reads in [false, true] {
        let controller = Store::default();
        let both = Both::with(controller.clone(), Options::default()).await;
        let mut peer = RawPeer::connect_over(&both.server, 1_000).await;
        peer.send(&[request(1, 0x4201, &to_vec(&give(&[8_000_000])).unwrap())]).await;
        controller.live.is(1).await;
        let credit = frame(Head::of_call(FrameKind::Credit, CallId::new(1)), &announced(1 << 30));
        peer.send(&[credit]).await;
        // Some of it is on its way, and the rest has credit.
        assert_eq!(peer.frame().await.unwrap().kind, FrameKind::Item);
        let server = both.server_end().await;
        server.close();
        if reads {
            let last = loop {
                match peer.frame().await.unwrap() {
                    frame if frame.kind == FrameKind::Item => {}
                    frame => break frame,
                }
            };
            assert_eq!(last.kind, FrameKind::Control);
            assert_eq!(peer.frame().await, None);
            drop(peer);
        }
        soon(server.closed()).await;
        controller.live.is(0).await;
    }
}
