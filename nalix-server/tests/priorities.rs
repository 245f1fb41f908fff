//! What overtakes what when more waits to be written than the link takes, and what never does.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{
    future::{Future, IntoFuture},
    pin::{Pin, pin},
    task::{Context as TaskContext, Poll, Waker},
};

use nalix_client::{Client, Session};
use nalix_core::{
    CallId, Connection, OneWay, Packet, RequestError, Sealing, SendError, StreamError,
    frame::{FRAGMENT, FrameKind, Head},
    link::memory,
    session::{Cover, Frame, Outbound},
    wire::{Decode, Limits, Reader, to_vec},
};
use nalix_server::{Encoded, Identity, Options, Server, Status, Wire, packet, packet_controller};
use support::{Blob, Both, RawPeer, frame, from_fn, request, soon, until};

/// One of many, in order.
#[packet(opcode = 0x3001, priority = "control")]
struct Control(u32, Blob);
#[packet(opcode = 0x3002, priority = "high")]
struct High(u32, Blob);
#[packet(opcode = 0x3003)]
struct Normal(u32, Blob);
#[packet(opcode = 0x3004, priority = "bulk")]
struct Bulk(u32, Blob);

/// What the link is busy with.
#[packet(opcode = 0x3005)]
struct Filler(Blob);

#[packet(opcode = 0x1001, reply = Blob, priority = "bulk")]
struct GiveBulk(u32);
#[packet(opcode = 0x1002, reply = Blob, priority = "high")]
struct GiveHigh(u32);
#[packet(opcode = 0x1003, reply = Blob)]
struct Give(u32);

#[derive(Debug, PartialEq, Wire)]
struct Long(Vec<u8>);

/// So many items, and an error of so many bytes behind them, if any.
#[packet(opcode = 0x4001, stream = u32, error = Long, priority = "bulk")]
struct CountBulk(u32, u32);
#[packet(opcode = 0x4002, stream = u32, error = Long)]
struct Count(u32, u32);

#[packet(opcode = 0x4003, upload = Vec<u8>, reply = u32, priority = "bulk")]
struct Upload;

#[derive(Clone, Copy)]
struct Depot;

#[packet_controller]
impl Depot {
    #[packet]
    fn bulk(&self, GiveBulk(len): GiveBulk) -> Blob {
        Blob(len as usize)
    }

    #[packet]
    fn high(&self, GiveHigh(len): GiveHigh) -> Blob {
        Blob(len as usize)
    }

    #[packet]
    fn normal(&self, Give(len): Give) -> Blob {
        Blob(len as usize)
    }

    #[packet]
    fn count_bulk(
        &self,
        CountBulk(n, error): CountBulk,
    ) -> impl futures_core::Stream<Item = Result<u32, Long>> {
        items(n, error)
    }

    #[packet]
    fn count(&self, Count(n, error): Count) -> impl futures_core::Stream<Item = Result<u32, Long>> {
        items(n, error)
    }

    #[packet]
    fn upload(&self, _: Upload, _: nalix_server::Incoming<Vec<u8>>) -> Result<u32, Status> {
        Ok(0)
    }
}

fn items(n: u32, error: u32) -> impl futures_core::Stream<Item = Result<u32, Long>> {
    let mut sent = 0;
    from_fn(move |_| {
        sent += 1;
        Poll::Ready(match sent {
            at if at <= n => Some(Ok(at)),
            at if at == n + 1 && error > 0 => Some(Err(Long(vec![7; error as usize]))),
            _ => None,
        })
    })
}

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut TaskContext::from_waker(Waker::noop()))
}

/// How many bytes a link takes by itself.
const CAPACITY: usize = 1_000;

/// What may be in front of something urgent: what is in the link, and what was handed to it.
const AHEAD: usize = CAPACITY + 64 * 1024 + FRAGMENT + 500;

/// Keeps the link busy with exactly what is not ranked any more.
fn fill(end: &Connection) {
    for _ in 0..5 {
        end.try_send(&Filler(Blob(16_000))).unwrap();
    }
}

/// Sends as many as there is room for, and says how many.
fn send_all<P: OneWay>(end: &Connection, packet: impl Fn(u32) -> P) -> u32 {
    for n in 0.. {
        match end.try_send(&packet(n)) {
            Ok(()) => {}
            Err(SendError::Full) => return n,
            Err(error) => panic!("{error}"),
        }
    }
    unreachable!()
}

/// The number in one of many.
fn number(frame: &Frame) -> u32 {
    u32::decode(&mut Reader::from_bytes(&frame.payload, &Limits::DEFAULT)).unwrap()
}

/// Reads on to the first frame that is wanted, and says how many bytes of payload came before.
async fn bytes_until(peer: &mut RawPeer, wanted: impl Fn(&Frame) -> bool) -> usize {
    let mut bytes = 0;
    loop {
        let frame = peer.frame().await.unwrap();
        if wanted(&frame) {
            return bytes;
        }
        bytes += frame.payload.len();
    }
}

async fn blocked() -> (Both, RawPeer, Connection) {
    let both = Both::new(Depot).await;
    let peer = RawPeer::connect_over(&both.server, CAPACITY).await;
    let end = both.server_end().await;
    (both, peer, end)
}

#[tokio::test(start_paused = true)]
async fn what_is_urgent_overtakes_a_backlog_that_fills_the_outbox() {
    async fn overtakes<P: OneWay>(packet: impl Fn(u32) -> P) {
        let (_both, mut peer, end) = blocked().await;
        let sent = send_all(&end, packet);
        assert!(sent > 900, "{sent}");
        until("the link takes no more", || matches!(end.try_send(&Control(0, Blob(0))), Ok(()))).await;
        end.try_send(&High(7, Blob(1_000))).unwrap();
        let bytes = bytes_until(&mut peer, |frame| frame.opcode == High::OPCODE).await;
        assert!(bytes <= AHEAD, "{bytes} bytes came before");
    }
    overtakes(|n| Bulk(n, Blob(1_000))).await;
    overtakes(|n| Normal(n, Blob(1_000))).await;
}

#[tokio::test(start_paused = true)]
async fn shares_are_exact() {
    let (_both, mut peer, end) = blocked().await;
    fill(&end);
    for n in 0..200 {
        end.try_send(&Bulk(n, Blob(100))).unwrap();
        end.try_send(&Normal(n, Blob(100))).unwrap();
        end.try_send(&High(n, Blob(100))).unwrap();
        end.try_send(&Control(n, Blob(100))).unwrap();
    }
    for _ in 0..5 {
        assert_eq!(peer.frame().await.unwrap().opcode, Filler::OPCODE);
    }
    // 25 times 8 are all that there are of the most urgent.
    for round in 0..25 {
        let mut counts = [0; 4];
        for _ in 0..15 {
            counts[usize::from(peer.frame().await.unwrap().opcode.get() - 0x3001)] += 1;
        }
        assert_eq!(counts, [8, 4, 2, 1], "{round}");
    }
    // The others share what those leave: 4 : 2 : 1.
    for round in 0..25 {
        let mut counts = [0; 4];
        for _ in 0..7 {
            counts[usize::from(peer.frame().await.unwrap().opcode.get() - 0x3001)] += 1;
        }
        assert_eq!(counts, [0, 4, 2, 1], "{round}");
    }
}

/// Those who send without end, each as fast as there is room.
#[tokio::test(start_paused = true)]
async fn bulk_never_starves() {
    let (_both, mut peer, end) = blocked().await;
    for task in 0..4 {
        let end = end.clone();
        tokio::spawn(async move {
            for n in 0.. {
                let sent = match task {
                    0 => end.send(&Bulk(n, Blob(100))).await,
                    1 => end.send(&Normal(n, Blob(100))).await,
                    _ => end.send(&High(n, Blob(100))).await,
                };
                if sent.is_err() {
                    break;
                }
            }
        });
    }
    until("the outbox is full of all", || {
        let full = |result: Result<(), SendError>| result == Err(SendError::Full);
        full(end.try_send(&Bulk(0, Blob(0))))
            && full(end.try_send(&High(0, Blob(0))))
            && full(end.try_send(&Normal(0, Blob(0))))
    })
    .await;
    let mut counts = [0u32; 4];
    for n in 0..21_000 {
        let opcode = peer.frame().await.unwrap().opcode.get();
        // The first ones have not been ranked.
        if n >= 7_000 {
            counts[usize::from(opcode - 0x3001)] += 1;
        }
    }
    let [_, high, normal, bulk] = counts;
    assert!(
        bulk.abs_diff(2_000) < 20 && normal.abs_diff(4_000) < 40 && high.abs_diff(8_000) < 80,
        "{counts:?}"
    );
}

/// Priorities reorder; nothing else may.
#[tokio::test(start_paused = true)]
async fn each_priority_stays_in_order_sealed_or_not() {
    for sealed in [false, true] {
        let identity = Identity::generate().unwrap();
        let key = identity.public_key();
        let server = Server::builder().no_listener().controller(Depot);
        let server = if sealed { server.identity(identity) } else { server.plaintext() };
        let server = server.build().await.unwrap().handle();
        let (ours, theirs) = memory::pair(700);
        server.serve_link(theirs);
        let client = Client::builder("");
        let client = if sealed { client.server_key(key) } else { client.plaintext() };
        let session = client.connect_over(ours).await.unwrap();
        assert_eq!(session.connection().sealing() == Sealing::All, sealed);
        until("it is connected", || server.connection_count() == 1).await;
        let end = server.connections().remove(0);
        let queue = nalix_core::Queue::drop_oldest(100_000);
        let mut controls = session.connection().subscribe_with::<Control>(queue);
        let mut highs = session.connection().subscribe_with::<High>(queue);
        let mut normals = session.connection().subscribe_with::<Normal>(queue);
        let mut bulks = session.connection().subscribe_with::<Bulk>(queue);
        let sending = tokio::spawn(async move {
            for n in 0..3_000u32 {
                let blob = Blob((n.wrapping_mul(2_654_435_761) >> 22) as usize);
                end.send(&Bulk(n, blob)).await.unwrap();
                end.send(&Normal(n, blob)).await.unwrap();
                if n % 2 == 0 {
                    end.send(&High(n / 2, blob)).await.unwrap();
                }
                if n % 3 == 0 {
                    end.send(&Control(n / 3, blob)).await.unwrap();
                }
            }
            end
        });
        for n in 0..3_000 {
            assert_eq!(soon(normals.next()).await.unwrap().unwrap().0, n);
        }
        for n in 0..3_000 {
            assert_eq!(soon(bulks.next()).await.unwrap().unwrap().0, n);
        }
        for n in 0..1_500 {
            assert_eq!(soon(highs.next()).await.unwrap().unwrap().0, n);
        }
        for n in 0..1_000 {
            assert_eq!(soon(controls.next()).await.unwrap().unwrap().0, n);
        }
        drop(sending.await.unwrap());
    }
}

/// What a handler answers with has the priority that the packet has where it is served.
#[tokio::test(start_paused = true)]
async fn answers_are_as_urgent_as_the_server_says() {
    let (_both, mut peer, end) = blocked().await;
    fill(&end);
    let many: Vec<_> = (0..60).map(|id| request(id, 0x1001, &to_vec(&GiveBulk(10_000)).unwrap())).collect();
    peer.send(&many).await;
    peer.send(&[request(100, 0x1003, &to_vec(&Give(10)).unwrap())]).await;
    peer.send(&[request(101, 0x1002, &to_vec(&GiveHigh(10)).unwrap())]).await;
    let mut order = Vec::new();
    while order.len() < 62 {
        let frame = peer.frame().await.unwrap();
        if frame.kind == FrameKind::Reply {
            order.push(frame.id.get());
        }
    }
    let place = |id| order.iter().position(|&other| other == id).unwrap();
    assert!(place(101) < place(100) && place(100) <= 4, "{order:?}");
    let bulk: Vec<_> = order.iter().copied().filter(|&id| id < 100).collect();
    assert!(bulk.is_sorted(), "{order:?}");
}

/// Which slot a large message comes in is its sender's matter, and says nothing about the answer.
#[tokio::test(start_paused = true)]
async fn a_caller_gains_nothing_by_the_slot_it_takes() {
    let (_both, mut peer, end) = blocked().await;
    fill(&end);
    let mut out = Outbound::new(1 << 20);
    let packet = [&to_vec(&GiveBulk(10_000)).unwrap()[..], &vec![0; 2 * FRAGMENT]].concat();
    let head = Head::request(CallId::new(1), GiveBulk::OPCODE);
    let control = Some(nalix_core::packet::Priority::Control);
    let metadata = (Default::default(), None);
    out.append_as(control, Cover::Plain, head, metadata, 0, |w| w.put(&packet)).unwrap();
    peer.send(&[request(0, 0x1001, &to_vec(&GiveBulk(10_000)).unwrap())]).await;
    let bytes = out.take(Vec::new());
    assert!(out.is_empty());
    let (kind, slot) = (bytes[4] & 0x0f, bytes[4 + 7]);
    assert_eq!((kind, slot), (2, 0), "a request in the slot of control messages");
    peer.write(&bytes).await;
    peer.send(&[request(2, 0x1003, &to_vec(&Give(10)).unwrap())]).await;
    let mut order = Vec::new();
    while order.len() < 3 {
        let frame = peer.frame().await.unwrap();
        if frame.kind == FrameKind::Reply {
            order.push(frame.id.get());
        }
    }
    assert_eq!(order, [2, 0, 1]);
}

#[tokio::test(start_paused = true)]
async fn bulk_that_nobody_reads_holds_no_calls_up() {
    let (_both, mut peer, end) = blocked().await;
    let sending = tokio::spawn({
        let end = end.clone();
        async move { while end.send(&Bulk(0, Blob(5_000))).await.is_ok() {} }
    });
    until("no more has room", || end.try_send(&Bulk(0, Blob(0))) == Err(SendError::Full)).await;
    for id in 0..20 {
        peer.send(&[request(id, 0x1003, &to_vec(&Give(100)).unwrap())]).await;
        let bytes =
            bytes_until(&mut peer, |frame| frame.kind == FrameKind::Reply && frame.id.get() == id).await;
        // Two of four bytes may be bulk besides what was ahead.
        assert!(bytes <= 2 * AHEAD, "{bytes} bytes came before the reply");
    }
    // Nor streams.
    peer.send(&[request(30, 0x4002, &to_vec(&Count(10, 0)).unwrap())]).await;
    peer.send(&[frame(Head::of_call(FrameKind::Credit, CallId::new(30)), &[0x80, 0x40])]).await;
    let bytes = bytes_until(&mut peer, |frame| frame.kind == FrameKind::End).await;
    assert!(bytes <= 4 * AHEAD, "{bytes} bytes came before the end");
    sending.abort();
}

#[tokio::test(start_paused = true)]
async fn who_waits_with_bulk_keeps_nobody_else_waiting() {
    let (_both, mut peer, end) = blocked().await;
    let sent = send_all(&end, |n| Bulk(n, Blob(10_000)));
    let waiting: Vec<_> = (0..10)
        .map(|n| {
            let end = end.clone();
            tokio::spawn(async move { end.send(&Bulk(sent + n, Blob(10_000))).await.unwrap() })
        })
        .collect();
    tokio::task::yield_now().await;
    let high = High(0, Blob(0));
    let mut sending = pin!(end.send(&high));
    assert_eq!(poll(sending.as_mut()), Poll::Ready(Ok(())));
    // The others come when there is room, in their order.
    let mut next = 0;
    while next < sent + 10 {
        let frame = peer.frame().await.unwrap();
        if frame.opcode == Bulk::OPCODE {
            assert_eq!(number(&frame), next);
            next += 1;
        }
    }
    for task in waiting {
        soon(task).await.unwrap();
    }
}

/// A large error ends a stream; it would be too early before its items.
#[tokio::test(start_paused = true)]
async fn the_end_of_a_stream_comes_behind_its_items_however_long_it_is() {
    let mut both = Both::new(Depot).await;
    both.capacity = 20_000;
    let session = both.client().await;
    let end = both.server_end().await;
    for error in [0, 10, 100_000, (1 << 20) + 1] {
        for urgent in [false, true] {
            let sending: Vec<_> = (0..3)
                .map(|task| {
                    let end = end.clone();
                    tokio::spawn(async move {
                        loop {
                            let sent = match task {
                                0 => end.send(&Bulk(0, Blob(3_000))).await,
                                1 => end.send(&Normal(0, Blob(300))).await,
                                _ => end.send(&High(0, Blob(200))).await,
                            };
                            sent.unwrap();
                        }
                    })
                })
                .collect();
            until("much waits", || end.try_send(&Normal(0, Blob(0))) == Err(SendError::Full)).await;
            let mut count = match urgent {
                true => session.stream(Count(5_000, error)).await.unwrap(),
                false => session.stream(CountBulk(5_000, error)).await.unwrap(),
            };
            for n in 1..=5_000 {
                assert_eq!(count.next().await, Some(Ok(n)), "{error}");
            }
            let last = count.next().await;
            match error {
                0 => assert_eq!(last, None),
                _ => assert!(
                    matches!(&last, Some(Err(StreamError::Application(Long(bytes)))) if bytes.len() == error as usize)
                ),
            }
            sending.iter().for_each(tokio::task::JoinHandle::abort);
        }
    }
}

/// Streams leave more room in the outbox than other senders do.
#[tokio::test(start_paused = true)]
async fn a_stream_is_not_starved_by_who_sends_packets_without_end() {
    let mut both = Both::new(Depot).await;
    both.capacity = 20_000;
    let session = both.client().await;
    let end = both.server_end().await;
    let flood = tokio::spawn({
        let end = end.clone();
        async move {
            loop {
                end.send(&Normal(0, Blob(3_000))).await.unwrap();
            }
        }
    });
    // It fills the outbox as soon as it runs.
    tokio::task::yield_now().await;
    let mut count = session.stream(Count(20_000, 0)).await.unwrap();
    for n in 1..=20_000 {
        assert_eq!(count.next().await, Some(Ok(n)));
    }
    assert_eq!(count.next().await, None);
    flood.abort();
}

/// A client whose link takes nothing more.
async fn blocked_client(max_calls: usize) -> (RawPeer, Session) {
    let (peer, session) = RawPeer::accept_over(Options::default(), CAPACITY, max_calls).await;
    (peer, session)
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_dropped_before_its_turn_is_never_sent() {
    let (mut peer, session) = blocked_client(10).await;
    fill(&session.connection());
    {
        let mut call = pin!(session.request(GiveBulk(1)).into_future());
        assert!(poll(call.as_mut()).is_pending());
        let stream = session.stream(CountBulk(1, 0)).await.unwrap();
        let mut upload = session.upload(Upload).await.unwrap();
        // There is no credit.
        let chunk = vec![0];
        assert!(poll(pin!(upload.send(&chunk))).is_pending());
        assert_eq!(session.connection().calls_in_flight(), 3);
        drop((stream, upload));
    }
    assert_eq!(session.connection().calls_in_flight(), 0, "their ids are free at once");
    session.send(&High(1, Blob(0))).await.unwrap();
    let mut kept = Box::pin(session.request(GiveBulk(2)).into_future());
    assert!(poll(kept.as_mut()).is_pending());
    let mut seen = Vec::new();
    while seen.len() < 2 {
        let frame = peer.frame().await.unwrap();
        if frame.opcode != Filler::OPCODE {
            seen.push((frame.kind, number(&frame)));
        }
    }
    assert_eq!(seen, [(FrameKind::Notify, 1), (FrameKind::Request, 2)]);
    // One that has been sent is cancelled as ever, ahead of what waits.
    fill(&session.connection());
    session.send(&Bulk(0, Blob(0))).await.unwrap();
    drop(kept);
    loop {
        let frame = peer.frame().await.unwrap();
        assert_ne!(frame.opcode, Bulk::OPCODE);
        if frame.kind == FrameKind::Cancel {
            break assert_eq!(frame.id, CallId::new(0));
        }
    }
}

/// The next call with its id would get them.
#[tokio::test(start_paused = true)]
async fn chunks_of_a_call_that_is_answered_do_not_reach_the_next_call() {
    let (mut peer, session) = blocked_client(1).await;
    let mut upload = session.upload(Upload).await.unwrap();
    let asked = peer.frame().await.unwrap();
    assert_eq!((asked.kind, asked.id), (FrameKind::Request, CallId::new(0)));
    peer.send(&[frame(Head::of_upload(FrameKind::Credit, asked.id), &[0x80, 0x80, 0x80, 1])]).await;
    fill(&session.connection());
    for n in 0..100 {
        soon(upload.send(&vec![n; 1_000])).await.unwrap();
    }
    let answer = frame(Head::of_call(FrameKind::Reply, asked.id), &to_vec(&5u32).unwrap());
    peer.send(&[answer]).await;
    let finished = soon(upload.finish()).await;
    assert_eq!(finished, Ok(5));
    let mut call = pin!(session.request(GiveHigh(9)).into_future());
    assert!(poll(call.as_mut()).is_pending());
    session.send(&Bulk(1, Blob(0))).await.unwrap();
    let mut begun = false;
    loop {
        let frame = peer.frame().await.unwrap();
        match frame.kind {
            FrameKind::Request => begun = true,
            FrameKind::Notify if frame.opcode == Bulk::OPCODE => break,
            FrameKind::Notify => {}
            kind => assert!(!begun, "{kind:?} behind the next call"),
        }
    }
    assert!(begun);
}

#[tokio::test(start_paused = true)]
async fn what_waits_for_its_turn_is_not_executed_when_the_link_breaks() {
    for sent in [false, true] {
        let (mut peer, session) = blocked_client(10).await;
        fill(&session.connection());
        let call = tokio::spawn({
            let session = session.clone();
            async move { session.request(GiveBulk(1)).await }
        });
        until("it waits", || session.connection().calls_in_flight() == 1).await;
        if sent {
            bytes_until(&mut peer, |frame| frame.kind == FrameKind::Request).await;
        }
        drop(peer);
        match soon(call).await.unwrap() {
            Err(RequestError::Disconnected { maybe_executed, .. }) => assert_eq!(maybe_executed, sent),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_close_writes_what_waits_of_every_priority() {
    let (_both, mut peer, end) = blocked().await;
    fill(&end);
    for n in 0..50 {
        end.try_send(&Bulk(n, Blob(500))).unwrap();
        end.try_send(&Control(n, Blob(500))).unwrap();
        end.try_send(&Normal(n, Blob(30_000))).unwrap();
    }
    end.close();
    let mut counts = [0; 5];
    for _ in 0..155 {
        let frame = peer.frame().await.unwrap();
        counts[usize::from(frame.opcode.get() - 0x3001)] += 1;
    }
    assert_eq!(counts, [50, 0, 50, 50, 5]);
    assert!(peer.goodbye().await.is_normal());
}

/// The latest of a key stays replaceable, and comes although others never stop.
#[tokio::test(start_paused = true)]
async fn the_latest_is_not_stuck_behind_what_never_stops() {
    let (_both, mut peer, end) = blocked().await;
    let sending = tokio::spawn({
        let end = end.clone();
        async move { while end.send(&Normal(0, Blob(1_000))).await.is_ok() {} }
    });
    until("no more has room", || end.try_send(&Normal(0, Blob(0))) == Err(SendError::Full)).await;
    for round in 1..20 {
        for n in 0..50 {
            end.try_send_latest(1, &Encoded::new(&Bulk(round * 100 + n, Blob(10))).unwrap()).unwrap();
        }
        let mut bytes = 0;
        loop {
            let frame = peer.frame().await.unwrap();
            bytes += frame.payload.len();
            if frame.opcode == Bulk::OPCODE {
                assert_eq!(number(&frame), round * 100 + 49);
                break;
            }
        }
        assert!(bytes <= 3 * AHEAD, "{bytes} bytes came before the latest");
    }
    sending.abort();
}
