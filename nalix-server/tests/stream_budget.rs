//! What all streams of a connection may hold together, and that none of them can keep it from another.

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
    CallId,
    frame::{FrameKind, Head},
    wire::varint,
};
use nalix_server::{Code, Incoming, Options, RequestError, packet, packet_controller};
use tokio::time::{sleep, timeout};

use support::{Both, Live, RawPeer, cancel, frame, from_fn, soon, until};

/// Items of 99 bytes, which take 100 on the wire, as fast as they are taken.
#[packet(opcode = 0x4301, stream = [u8; 99])]
struct Flood;

/// An upload that nobody reads.
#[packet(opcode = 0x4302, upload = [u8; 99], reply = ())]
struct Sink;

/// Gives back what it gets.
#[packet(opcode = 0x4303, upload = [u8; 99], stream = [u8; 99])]
struct Mirror;

/// Adds up what it gets.
#[packet(opcode = 0x4304, upload = [u8; 99], reply = u64)]
struct Count;

#[packet(opcode = 0x1001, reply = u64)]
struct Ask(u64);

const ITEM: [u8; 99] = [5; 99];
const SIZE: u64 = 100;

#[derive(Clone, Default)]
struct Source {
    live: Live,
    made: Arc<AtomicU64>,
}

#[packet_controller]
impl Source {
    #[packet]
    fn flood(&self, _: Flood) -> impl Stream<Item = [u8; 99]> + use<> {
        let (guard, made) = (self.live.enter(), Arc::clone(&self.made));
        from_fn(move |_| {
            let _ = &guard;
            made.fetch_add(1, Ordering::Relaxed);
            Poll::Ready(Some(ITEM))
        })
    }

    #[packet(concurrent)]
    async fn sink(&self, _: Sink, chunks: Incoming<[u8; 99]>) {
        let _guard = self.live.enter();
        std::future::pending::<()>().await;
        drop(chunks);
    }

    #[packet]
    fn mirror(&self, _: Mirror, mut chunks: Incoming<[u8; 99]>) -> impl Stream<Item = [u8; 99]> + use<> {
        from_fn(move |cx| {
            std::pin::Pin::new(&mut chunks).poll_next(cx).map(|chunk| chunk.and_then(Result::ok))
        })
    }

    #[packet(concurrent)]
    async fn count(&self, _: Count, mut chunks: Incoming<[u8; 99]>) -> u64 {
        let mut n = 0;
        while let Some(Ok(_)) = chunks.next().await {
            n += 1;
        }
        n
    }

    #[packet]
    fn ask(&self, ask: Ask) -> u64 {
        ask.0
    }
}

/// A budget of 256 KiB, and so first windows of 1 KiB for 64 calls.
fn options() -> Options {
    let mut options = Options::default();
    (options.max_calls, options.stream_budget) = (64, 256 << 10);
    options
}

async fn both(controller: Source) -> Both {
    let mut both = Both::with(controller, options()).await;
    both.client_options = options();
    both
}

/// B19, B21: streams that nobody reads take all memory, or all credit.
#[tokio::test(start_paused = true)]
async fn streams_that_nobody_reads_hold_the_budget_at_most_and_stop_no_other() {
    let controller = Source::default();
    let both = both(controller.clone()).await;
    let client = both.client().await;
    let mut streams = Vec::new();
    let mut taken = 0;
    // Each is read for a while, so that its window grows, and then left alone.
    for n in 0..62 {
        let mut items = client.stream(Flood).await.unwrap();
        for _ in 0..n * 50 {
            assert_eq!(soon(items.next()).await, Some(Ok(ITEM)));
            taken += 1;
        }
        streams.push(items);
    }
    sleep(Duration::from_secs(10)).await;
    let unread = (controller.made.load(Ordering::Relaxed) - taken) * SIZE;
    // Of each, one item may be made for which there is no credit, and one that goes beyond it.
    assert!(unread <= (256 << 10) + 62 * 2 * SIZE, "{unread} bytes");
    assert!(unread > 128 << 10, "the budget is made use of: {unread} bytes");
    let made = controller.made.load(Ordering::Relaxed);
    sleep(Duration::from_secs(10)).await;
    assert_eq!(controller.made.load(Ordering::Relaxed), made, "nobody takes them, so no more are made");

    for n in 0..100 {
        assert_eq!(soon(client.request(Ask(n)).into_future()).await, Ok(n));
    }
    let mut another = client.stream(Flood).await.unwrap();
    for _ in 0..10_000 {
        assert_eq!(soon(another.next()).await, Some(Ok(ITEM)));
    }
    let mut upload = client.upload(Count).await.unwrap();
    for _ in 0..1_000 {
        soon(upload.send(&ITEM)).await.unwrap();
    }
    assert_eq!(soon(upload.finish()).await, Ok(1_000));
    drop(another);
    drop(streams);
    controller.live.is(0).await;
}

#[tokio::test(start_paused = true)]
async fn uploads_that_nobody_reads_hold_their_first_windows() {
    let controller = Source::default();
    let both = both(controller.clone()).await;
    let client = both.client().await;
    let mut uploads = Vec::new();
    let mut sent = 0;
    for _ in 0..60 {
        let mut upload = client.upload(Sink).await.unwrap();
        while timeout(Duration::from_secs(1), upload.send(&ITEM)).await.is_ok() {
            sent += SIZE;
        }
        uploads.push(upload);
    }
    // The last chunk of each goes beyond its window, and waits on the sender's side.
    assert!(sent <= 60 * (1_024 + SIZE), "{sent} bytes");
    assert_eq!(soon(client.request(Ask(1)).into_future()).await, Ok(1));
    let mut count = client.upload(Count).await.unwrap();
    for _ in 0..1_000 {
        soon(count.send(&ITEM)).await.unwrap();
    }
    assert_eq!(soon(count.finish()).await, Ok(1_000));
    drop(uploads);
    controller.live.is(0).await;
}

/// B21 (b), (d): one stream can end only after another, which has no credit.
#[tokio::test(start_paused = true)]
async fn streams_that_wait_for_each_other_come_to_their_end() {
    let both = both(Source::default()).await;
    let client = both.client().await;
    let mut unread = Vec::new();
    for _ in 0..50 {
        unread.push(client.stream(Flood).await.unwrap());
    }
    sleep(Duration::from_secs(1)).await;
    // What comes out of the first goes into the second, and so on; the last is read, and with it all of them.
    let mut links = Vec::new();
    for _ in 0..8 {
        links.push(client.duplex(Mirror).await.unwrap());
    }
    let (mut first, mut from) = links.remove(0);
    let mut pumps = tokio::task::JoinSet::new();
    for (mut into, next) in links {
        let mut came = std::mem::replace(&mut from, next);
        pumps.spawn(async move {
            while let Some(item) = came.next().await {
                into.send(&item.unwrap()).await.unwrap();
            }
            into.finish().unwrap();
        });
    }
    let send = async {
        for _ in 0..2_000 {
            first.send(&ITEM).await.unwrap();
        }
        first.finish().unwrap();
    };
    let read = async {
        let mut n = 0;
        while let Some(item) = from.next().await {
            assert_eq!(item, Ok(ITEM));
            n += 1;
        }
        n
    };
    assert_eq!(soon(async { tokio::join!(send, read) }).await.1, 2_000);
    soon(pumps.join_all()).await;
}

/// B21 (c): a handler answers while it reads, and the client writes until it has to wait before it reads.
#[tokio::test(start_paused = true)]
async fn a_client_that_writes_before_it_reads_is_not_stuck_for_ever() {
    let both = both(Source::default()).await;
    let client = both.client().await;
    let (mut into, mut from) = client.duplex(Mirror).await.unwrap();
    let mut sent = 0;
    while timeout(Duration::from_secs(1), into.send(&ITEM)).await.is_ok() {
        sent += 1;
    }
    assert!(sent < 2_000, "both windows and no more: {sent}");
    assert_eq!(soon(client.request(Ask(1)).into_future()).await, Ok(1));
    into.finish().unwrap();
    for _ in 0..sent {
        assert_eq!(soon(from.next()).await, Some(Ok(ITEM)));
    }
    assert_eq!(soon(from.next()).await, None);
    // One that is given a time ends with its name.
    let (mut into, from) = client.duplex(Mirror).timeout(Duration::from_secs(30)).await.unwrap();
    while timeout(Duration::from_secs(1), into.send(&ITEM)).await.is_ok_and(|sent| sent.is_ok()) {}
    sleep(Duration::from_secs(30)).await;
    assert!(soon(into.send(&ITEM)).await.is_err());
    drop((into, from));
    until("the call is over", || client.connection().calls_in_flight() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_stream_beyond_the_budget_is_refused_and_nothing_is_sent() {
    // The peer takes more calls than the budget has first windows for.
    let (mut peer, client) = RawPeer::accept(options()).await;
    let mut streams = Vec::new();
    let error = loop {
        match client.stream(Flood).await {
            Ok(items) => streams.push(items),
            Err(error) => break error,
        }
    };
    let RequestError::Status(status) = error else { panic!("{error:?}") };
    assert_eq!(status.code, Code::ResourceExhausted);
    assert_eq!(streams.len(), 64);
    for _ in 0..64 {
        assert_eq!(peer.frame().await.unwrap().kind, FrameKind::Request);
    }
    // A request needs no window, nor does an upload of ours.
    let upload = client.upload(Sink).await.unwrap();
    assert_eq!(peer.frame().await.unwrap().kind, FrameKind::Request);
    drop(upload);
    assert_eq!(peer.frame().await.unwrap().kind, FrameKind::Cancel);
    drop(streams.pop());
    assert_eq!(peer.frame().await.unwrap().kind, FrameKind::Cancel);
    streams.push(client.stream(Flood).await.unwrap());
    assert!(client.stream(Flood).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn an_upload_that_is_late_does_not_end_as_if_it_were_whole() {
    let (mut peer, client) = RawPeer::accept(options()).await;
    let upload = client.upload(Sink).timeout(Duration::from_secs(1)).await.unwrap();
    assert_eq!(peer.frame().await.unwrap().kind, FrameKind::Request);
    // Its sender learns of the deadline by a chunk that is refused, and ends it without looking.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let _answer = upload.finish();
    let end = peer.frame().await.unwrap();
    assert!(end.kind == FrameKind::End && !end.payload.is_empty(), "{end:?}");
}

#[tokio::test(start_paused = true)]
async fn windows_grow_while_they_are_consumed_quickly_and_come_back_at_the_end() {
    let (mut peer, client) = RawPeer::accept(options()).await;
    let batch = [&[99][..], &ITEM].concat().repeat(5);
    let mut grown = Vec::new();
    // Were anything kept of those that have ended, there would be nothing left for the last.
    for round in 0..20 {
        let mut items = client.stream(Flood).await.unwrap();
        let asked = until_kind(&mut peer, FrameKind::Request).await;
        let item = frame(Head::of_call(FrameKind::Item, asked), &batch);
        let (mut credit, mut granted) = (1_024, 1_024);
        for _ in 0..400 {
            peer.send(std::slice::from_ref(&item)).await;
            credit -= batch.len() as u64;
            for _ in 0..5 {
                assert_eq!(soon(items.next()).await, Some(Ok(ITEM)));
            }
            if credit < batch.len() as u64 {
                let frame = peer.frame().await.unwrap();
                assert_eq!(frame.kind, FrameKind::Credit);
                granted = varint::split(&frame.payload).unwrap().0;
                credit += granted;
            }
        }
        grown.push(granted);
        if round % 2 == 0 {
            drop(items);
            assert_eq!(until_kind(&mut peer, FrameKind::Cancel).await, asked);
        }
        let end = frame(Head::of_call(FrameKind::End, asked), &[]);
        peer.send(&[end]).await;
        until("the call is over", || client.connection().calls_in_flight() == 0).await;
    }
    assert!(grown[0] > 8 << 10, "{grown:?}");
    assert!(grown.iter().all(|&n| n == grown[0]), "{grown:?}");
}

async fn until_kind(peer: &mut RawPeer, kind: FrameKind) -> CallId {
    loop {
        let frame = peer.frame().await.unwrap();
        if frame.kind == kind {
            return frame.id;
        }
        assert_eq!(frame.kind, FrameKind::Credit);
    }
}

/// Whoever takes an item and does something else for long is not waited for as long as there is half a window.
#[tokio::test(start_paused = true)]
async fn half_a_window_that_is_taken_is_granted_before_its_reader_asks_again() {
    let (mut peer, client) = RawPeer::accept(options()).await;
    let mut items = client.stream(Flood).await.unwrap();
    let asked = peer.frame().await.unwrap();
    let item = frame(Head::of_call(FrameKind::Item, asked.id), &[&[99][..], &ITEM].concat());
    // Reads 400 bytes and waits for more, and gets 200.
    for round in [4, 2] {
        peer.send(&vec![item.clone(); round]).await;
        for _ in 0..round {
            assert_eq!(soon(items.next()).await, Some(Ok(ITEM)));
        }
        if round == 4 {
            assert!(timeout(Duration::from_millis(1), items.next()).await.is_err());
        }
    }
    assert_eq!(soon(peer.frame()).await.unwrap().kind, FrameKind::Credit);
}

#[tokio::test(start_paused = true)]
async fn a_window_that_is_consumed_slowly_does_not_grow() {
    let (mut peer, client) = RawPeer::accept(options()).await;
    let mut items = client.stream(Flood).await.unwrap();
    let asked = peer.frame().await.unwrap();
    let item = frame(Head::of_call(FrameKind::Item, asked.id), &[&[99][..], &ITEM].concat().repeat(6));
    for _ in 0..50 {
        peer.send(std::slice::from_ref(&item)).await;
        sleep(Duration::from_secs(2)).await;
        for _ in 0..6 {
            assert_eq!(soon(items.next()).await, Some(Ok(ITEM)));
        }
        // 512 bytes are half a window; what is beyond it is granted with the next.
        let granted = varint::split(&peer.frame().await.unwrap().payload).unwrap().0;
        assert!((512..=1_024).contains(&granted), "{granted}");
    }
    peer.send(&[cancel(9)]).await;
}
