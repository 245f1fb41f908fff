//! Packets marked `compress` between live ends: what travels compressed and what does not, whoever takes it, and that a peer
//! gains nothing by lies about it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{
    sync::{Arc, Mutex},
    task::Poll,
};

use bytes::Bytes;
use futures_core::Stream;
use nalix_client::Client;
use nalix_core::{
    CallId, Encoded, Opcode, Wire,
    frame::{FRAGMENT, FrameKind, Head, compress},
    handshake::{Contracts, Params},
    link::memory,
    record,
    session::MAX_MESSAGE,
    wire::{from_slice, to_vec, varint},
};
use nalix_server::{
    CloseCode, Code, Delivery, Identity, Incoming, Options, RequestError, Sealing, SendError, Server, Status,
    packet, packet_controller,
};
use tokio::{io::AsyncReadExt, sync::Semaphore};

use support::{
    Both, Inbox, Live, RawPeer, deaf, eventually, frame, from_fn, member, request, server, session, soon,
};

#[derive(Debug, Clone, PartialEq, Wire)]
struct Refused(Bytes);

/// Answered with so many bytes, or with an error of as many.
#[packet(opcode = 0x1001, reply = Bytes, error = Refused, compress)]
struct Page {
    len: u32,
    fails: bool,
    ballast: Bytes,
}

/// The same, unmarked.
#[packet(opcode = 0x1002, reply = Bytes)]
struct PlainPage(u32);

#[packet(opcode = 0x1003, reply = u64, compress = 0)]
struct Measure(Bytes);

#[packet(opcode = 0x1004, reply = u64, compress, encrypt)]
struct Secret(Bytes);

/// Answered when the test says so.
#[packet(opcode = 0x1005, reply = u64, compress)]
struct Hold(Bytes);

#[packet(opcode = 0x3001, compress = 100)]
struct Numbered {
    n: u32,
    ballast: Bytes,
}

#[packet(opcode = 0x3002, compress)]
struct Snapshot {
    n: u32,
    ballast: Bytes,
}

#[packet(opcode = 0x4001, stream = Bytes, compress)]
struct Lines {
    count: u32,
    len: u32,
}

#[packet(opcode = 0x4002, upload = Bytes, reply = u64, compress)]
struct Store {
    name: String,
}

#[packet(opcode = 0x4003, upload = Bytes, stream = Bytes, compress)]
struct Shell;

#[derive(Clone)]
struct Pages {
    entered: Live,
    numbers: Inbox<u32>,
    go: Arc<Semaphore>,
}

impl Default for Pages {
    fn default() -> Self {
        Self { entered: Live::default(), numbers: Inbox::default(), go: Arc::new(Semaphore::new(0)) }
    }
}

#[packet_controller]
impl Pages {
    #[packet]
    fn page(&self, page: Page) -> Result<Bytes, Refused> {
        drop(self.entered.enter());
        match page.fails {
            true => Err(Refused(some(page.len as usize))),
            false => Ok(some(page.len as usize)),
        }
    }

    #[packet]
    fn plain_page(&self, PlainPage(len): PlainPage) -> Bytes {
        some(len as usize)
    }

    #[packet]
    fn measure(&self, Measure(bytes): Measure) -> u64 {
        drop(self.entered.enter());
        assert!(bytes.iter().all(|&byte| byte == 7), "not what was sent");
        bytes.len() as u64
    }

    #[packet]
    fn secret(&self, Secret(bytes): Secret) -> u64 {
        drop(self.entered.enter());
        bytes.len() as u64
    }

    #[packet(concurrent)]
    async fn hold(&self, Hold(bytes): Hold) -> u64 {
        let _guard = self.entered.enter();
        self.go.acquire().await.unwrap().forget();
        bytes.len() as u64
    }

    #[packet]
    fn numbered(&self, numbered: Numbered) {
        self.numbers.put(numbered.n);
    }

    #[packet]
    fn lines(&self, lines: Lines) -> impl Stream<Item = Bytes> + use<> {
        let mut n = 0;
        from_fn(move |_| {
            n += 1;
            Poll::Ready((n <= lines.count).then(|| some(lines.len as usize)))
        })
    }

    #[packet(concurrent)]
    async fn shell(&self, _: Shell, chunks: Incoming<Bytes>) -> impl Stream<Item = Bytes> {
        let mut chunks = chunks;
        from_fn(move |cx| std::pin::Pin::new(&mut chunks).poll_next(cx).map(|chunk| chunk?.ok()))
    }

    #[packet(concurrent)]
    async fn store(&self, store: Store, mut chunks: Incoming<Bytes>) -> Result<u64, Status> {
        let mut sum = store.name.len() as u64;
        while let Some(chunk) = chunks.next().await {
            sum += chunk.map_err(|_| Status::internal("no chunk"))?.len() as u64;
        }
        Ok(sum)
    }
}

fn some(len: usize) -> Bytes {
    vec![7; len].into()
}

/// A packet of type `Bytes` as it travels compressed: it says `says` bytes and holds `holds`, all of them 7.
fn run(says: usize, holds: usize) -> Vec<u8> {
    let mut body = put_varint(says);
    body.extend([0x1f, 7, 1, 0]);
    let more = holds - 1 - 5 - 19;
    body.extend(vec![255; more / 255]);
    body.extend([(more % 255) as u8, 0x50, 7, 7, 7, 7, 7]);
    body
}

fn put_varint(n: usize) -> Vec<u8> {
    let mut buf = [0; varint::MAX_LEN];
    let len = varint::put(n as u64, &mut buf);
    buf[..len].to_vec()
}

fn compressed(message: &[u8]) -> Vec<u8> {
    compress::compressed(message, |bytes| bytes.expect("it becomes shorter").to_vec())
}

fn asked(id: u32, opcode: u16) -> Head {
    Head::request(CallId::new(id), Opcode::new(opcode)).with_compressed()
}

/// The heads of the frames in the next record, with how many bytes travel as their payload.
async fn heads(peer: &mut RawPeer) -> Vec<(Head, usize)> {
    let mut header = [0; record::HEADER];
    soon(peer.stream.read_exact(&mut header)).await.unwrap();
    let (_, len) = record::parse(header).unwrap();
    let mut body = vec![0; len];
    soon(peer.stream.read_exact(&mut body)).await.unwrap();
    let mut heads = Vec::new();
    let mut at = 0;
    while at < body.len() {
        let parsed = nalix_core::frame::parse(&body, at).unwrap();
        at = parsed.payload.end;
        heads.push((parsed.head, parsed.payload.len()));
    }
    heads
}

fn page(len: u32, fails: bool) -> Page {
    Page { len, fails, ballast: Bytes::new() }
}

#[tokio::test(start_paused = true)]
async fn answers_of_marked_packets_travel_compressed_and_others_do_not() {
    let both = Both::new(Pages::default()).await;
    let mut peer = RawPeer::connect_inflating(&both.server).await;
    for (packet, opcode, shorter) in [
        (to_vec(&page(5_000, false)).unwrap(), 0x1001, true),
        (to_vec(&page(100_000, false)).unwrap(), 0x1001, true),
        (to_vec(&page(5_000, true)).unwrap(), 0x1001, true),
        // 2 bytes are the length of the bytes.
        (to_vec(&page(1_022, false)).unwrap(), 0x1001, true),
        (to_vec(&page(1_021, false)).unwrap(), 0x1001, false),
        (to_vec(&page(10, true)).unwrap(), 0x1001, false),
        (to_vec(&PlainPage(5_000)).unwrap(), 0x1002, false),
        // A status.
        (b"\xff".to_vec(), 0x1001, false),
    ] {
        peer.send(&[request(0, opcode, &packet)]).await;
        let heads = heads(&mut peer).await;
        let [(head, travels)] = heads[..] else { panic!("{heads:?}") };
        assert_eq!(head.compressed, shorter, "{opcode:#x} {packet:?}");
        assert!(!shorter || travels < 500, "{travels} bytes");
        peer.send(&[request(0, opcode, &packet)]).await;
        let frame = peer.frame().await.unwrap();
        let fails = opcode == 0x1001 && packet.get(4) == Some(&1);
        if let [a, b, c, d, ..] = packet[..] {
            let len = u32::from_le_bytes([a, b, c, d]) as usize;
            match fails {
                false => assert_eq!(from_slice::<Bytes>(&frame.payload), Ok(some(len))),
                true => assert_eq!(from_slice::<Bytes>(&frame.payload[1..]), Ok(some(len))),
            }
        }
    }
}

/// Each side says what it takes, and sends what the other takes.
#[tokio::test(start_paused = true)]
async fn nothing_is_compressed_for_who_does_not_take_it() {
    let both = Both::new(Pages::default()).await;
    let mut peer = RawPeer::connect(&both.server).await;
    peer.send(&[request(0, 0x1001, &to_vec(&page(5_000, false)).unwrap())]).await;
    let answered = heads(&mut peer).await;
    assert!(matches!(answered[..], [(Head { compressed: false, .. }, 5_002)]), "{answered:?}");
    // It may send what it does not take.
    peer.send(&[frame(asked(0, 0x1003), &compressed(&to_vec(&Measure(some(3_000))).unwrap()))]).await;
    assert_eq!(from_slice(&peer.reply(0).await), Ok(3_000_u64));

    for takes in [false, true] {
        let params = Params::new(MAX_MESSAGE, 100, Contracts::default()).with_compression(takes);
        let (mut peer, session) = RawPeer::accept_with(Options::default(), 1 << 20, params).await;
        session.send(&Snapshot { n: 1, ballast: some(5_000) }).await.unwrap();
        let sent = heads(&mut peer).await;
        let [(head, travels)] = sent[..] else { panic!("{sent:?}") };
        assert_eq!((head.kind, head.compressed, travels < 1_000), (FrameKind::Notify, takes, takes));
        session
            .connection()
            .try_send_latest(1, &Encoded::new(&Snapshot { n: 1, ballast: some(5_000) }).unwrap())
            .unwrap();
        let sent = heads(&mut peer).await;
        assert!(sent[0].0.compressed == takes, "{sent:?}");
        let asking = tokio::spawn({
            let session = session.clone();
            async move { session.request(Measure(some(100_000))).await }
        });
        let sent = heads(&mut peer).await;
        assert_eq!((sent[0].0.kind, sent[0].0.compressed), (FrameKind::Request, takes));
        assert_eq!(sent[0].0.more, !takes, "compressed, it fits a frame");
        asking.abort();
    }
    let mut options = Options::default();
    options.compression = false;
    let params = Params::new(MAX_MESSAGE, 100, Contracts::default()).with_compression(true);
    let (mut peer, session) = RawPeer::accept_with(options, 1 << 20, params).await;
    session.send(&Snapshot { n: 1, ballast: some(5_000) }).await.unwrap();
    assert!(!heads(&mut peer).await[0].0.compressed, "this side does not want to");
    peer.send(&[frame(Head::notify(Opcode::new(0x3002)).with_compressed(), &run(5_000, 5_000))]).await;
    let reason = peer.goodbye().await;
    assert_eq!(reason.code, CloseCode::ProtocolError);
    assert!(reason.message.contains("not agreed on"), "{reason}");
}

/// Whether either side has turned it off, and for every size.
#[tokio::test]
async fn everything_arrives_as_it_was_sent() {
    for (ours, theirs) in [(true, true), (true, false), (false, true), (false, false)] {
        let mut options = Options::default();
        options.compression = theirs;
        let mut both = Both::with(Pages::default(), options).await;
        both.client_options.compression = ours;
        let client = both.client_serving(Pages::default()).await;
        let back = both.server_end().await;
        for len in [0, 1, 1_021, 1_022, FRAGMENT - 5, FRAGMENT, 300_000, (16 << 20) - 10] {
            assert_eq!(client.request(Measure(some(len))).await, Ok(len as u64));
            assert_eq!(back.request(Measure(some(len))).await, Ok(len as u64));
            let n = len as u32;
            assert_eq!(client.request(page(n, false)).await, Ok(some(len)));
            let refused = client.request(page(n, true)).await;
            assert_eq!(refused, Err(RequestError::Application(Refused(some(len)))));
            assert_eq!(back.request(Encoded::new(&Measure(some(len))).unwrap()).await, Ok(len as u64));
        }
        // One byte more than the limit, which it has in either form.
        let over = client.request(Measure(some((16 << 20) - 3))).await;
        assert_eq!(over, Err(RequestError::TooLarge { limit: 16 << 20 }), "{ours} {theirs}");
        let over = Encoded::new(&Measure(some((16 << 20) - 3))).unwrap();
        assert_eq!(client.request(over).await, Err(RequestError::TooLarge { limit: 16 << 20 }));
        let over = client.request(page(16 << 20, false)).await;
        assert!(
            matches!(&over, Err(RequestError::Status(s)) if s.code == Code::ResourceExhausted),
            "{over:?}"
        );
        assert_eq!(client.request(Measure(some((16 << 20) - 4))).await, Ok((16 << 20) - 4));
    }
}

#[tokio::test]
async fn streams_and_uploads_arrive_as_they_were_sent() {
    let both = Both::new(Pages::default()).await;
    let client = both.client().await;
    for (count, len) in [(0, 1), (1_000, 1), (1_000, 300), (50, 5_000), (20, 16_378), (5, 200_000)] {
        let mut lines = client.stream(Lines { count, len }).await.unwrap();
        let mut got = 0;
        while let Some(line) = lines.next().await {
            assert!(line.unwrap() == some(len as usize));
            got += 1;
        }
        assert_eq!(got, count);
        let mut upload = client.upload(Store { name: "x".repeat(2_000) }).await.unwrap();
        for _ in 0..count {
            upload.send(&some(len as usize)).await.unwrap();
        }
        assert_eq!(upload.finish().await, Ok(u64::from(count) * u64::from(len) + 2_000));
    }
    let (mut up, mut down) = client.duplex(Shell).await.unwrap();
    for len in [10, 3_000, 16_378] {
        up.send(&some(len)).await.unwrap();
        assert_eq!(down.next().await, Some(Ok(some(len))));
    }
    up.finish().unwrap();
    assert_eq!(down.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn items_travel_compressed_and_count_as_they_were_before() {
    let both = Both::new(Pages::default()).await;
    let mut peer = RawPeer::connect_inflating(&both.server).await;
    peer.send(&[request(0, 0x4001, &to_vec(&Lines { count: 5, len: 2_000 }).unwrap())]).await;
    let sent = heads(&mut peer).await;
    let [(item, travels), (end, 0)] = sent[..] else { panic!("{sent:?}") };
    assert!(item.kind == FrameKind::Item && item.compressed && travels < 200, "{travels} bytes");
    assert!(end.kind == FrameKind::End && !end.compressed);

    // Items beyond the credit are so however short they have become.
    let mut options = Options::default();
    // So that each starts with the whole window.
    (options.stream_window, options.max_calls) = (10_010, 100);
    let params = Params::new(MAX_MESSAGE, 100, Contracts::default()).with_compression(true);
    let (mut peer, session) = RawPeer::accept_with(options, 1 << 20, params).await;
    let mut lines = session.stream(Lines { count: 9, len: 9 }).await.unwrap();
    assert_eq!(peer.frame().await.unwrap().kind, FrameKind::Request);
    let one = to_vec(&some(5_000)).unwrap();
    let items = compressed(&[put_varint(one.len()), one].concat());
    let item = || frame(Head::of_call(FrameKind::Item, CallId::new(0)).with_compressed(), &items);
    // 10,008 bytes, which is as far as the credit goes.
    peer.send(&[item(), item()]).await;
    for _ in 0..2 {
        assert_eq!(soon(lines.next()).await, Some(Ok(some(5_000))));
    }
    let credit = peer.frame().await.unwrap();
    assert_eq!(credit.kind, FrameKind::Credit);
    peer.send(&[item(), item(), item(), item()]).await;
    let mut last = peer.frame().await;
    while last.as_ref().is_some_and(|frame| frame.kind == FrameKind::Credit) {
        last = peer.frame().await;
    }
    let last = last.expect("a goodbye");
    assert_eq!(last.kind, FrameKind::Control, "{last:?}");
    assert!(String::from_utf8_lossy(&last.payload).contains("beyond the credit"), "{last:?}");
}

#[tokio::test(start_paused = true)]
async fn a_group_gets_it_compressed_once_and_each_member_in_the_form_it_takes() {
    let server = server(Pages::default(), Options::default()).await;
    let group = server.hub().group("all");
    let ear = Pages::default();
    let (_session, live) = member(&server, ear.clone()).await;
    let (mut plain, old) = deaf(&server, 1 << 20).await;
    for connection in [&live, &old] {
        group.join(connection);
    }
    let mut newer = RawPeer::connect_inflating(&server).await;
    eventually("it is there", || server.connection_count() == 3).await;
    for connection in server.connections() {
        group.join(&connection);
    }
    for (i, delivery) in [Delivery::Reliable, Delivery::Droppable, Delivery::DropOldest, Delivery::Latest(1)]
        .into_iter()
        .enumerate()
    {
        let packet = Numbered { n: i as u32, ballast: some(20_000) };
        assert_eq!(group.with(delivery).send(&packet).queued, 3, "{delivery:?}");
        let sent = heads(&mut newer).await;
        assert!(matches!(sent[..], [(Head { compressed: true, more: false, .. }, ..200)]), "{sent:?}");
        let got = plain.frame().await.unwrap();
        assert_eq!((got.kind, got.payload), (FrameKind::Notify, to_vec(&packet).unwrap().into()));
    }
    ear.numbers.has(4).await;
    assert_eq!(ear.numbers.all(), [0, 1, 2, 3]);
}

#[tokio::test]
async fn subscribers_are_given_what_was_sent() {
    let both = Both::new(Pages::default()).await;
    let client = both.client().await;
    let mut snapshots = client.subscribe::<Snapshot>();
    let back = both.server_end().await;
    for n in 0..20 {
        back.send(&Snapshot { n, ballast: some(n as usize * 1_000) }).await.unwrap();
    }
    for n in 0..20 {
        let snapshot = soon(snapshots.next()).await.unwrap().unwrap();
        assert_eq!((snapshot.n, snapshot.ballast.len()), (n, n as usize * 1_000));
    }
}

/// B18: what is compressed and what is not keep their order.
#[tokio::test]
async fn compressed_and_other_packets_start_in_the_order_in_which_they_were_sent() {
    let pages = Pages::default();
    let both = Both::new(pages.clone()).await;
    let client = both.client().await;
    let count = 5_000;
    for n in 0..count {
        let ballast = some(if n % 3 == 0 { 6_000 } else { n as usize % 200 });
        client.send(&Numbered { n, ballast }).await.unwrap();
    }
    pages.numbers.has(count as usize).await;
    assert_eq!(pages.numbers.all(), (0..count).collect::<Vec<_>>());
}

/// B10: a bomb, a length that lies, one that is over the limit: one error and a close, and no handler runs.
#[tokio::test(start_paused = true)]
async fn bombs_and_lies_close_the_connection_and_nothing_else() {
    let pages = Pages::default();
    let mut options = Options::default();
    options.max_message = 100_000;
    let both = Both::with(pages.clone(), options).await;
    let neighbour = both.client().await;
    for (body, says) in [
        (run(100_001, 100_001), "message of 100001 bytes, the limit is 100000"),
        (run(100_000, 4_000_000), "longer than it says"),
        (run(100_000, 99_999), "shorter than it says"),
        (run(u32::MAX as usize, 4_000_000), "message of 4294967295 bytes"),
        (run(10, 64), "no shorter"),
        ([run(64, 64), vec![0]].concat(), "broken"),
        (vec![], "without its length"),
        (vec![64], "broken"),
        (vec![64, 0x10, 7, 9, 0], "before it"),
    ] {
        let mut peer = RawPeer::connect(&both.server).await;
        let good = request(1, 0x1003, &to_vec(&Measure(some(3))).unwrap());
        peer.send(&[frame(asked(0, 0x1003), &body), good]).await;
        let reason = peer.goodbye().await;
        assert_eq!(reason.code, CloseCode::ProtocolError);
        assert!(reason.message.contains(says), "{reason} instead of {says}");
    }
    assert_eq!(pages.entered.entered(), 0, "no handler runs");
    // Before the handshake there is nothing to inflate.
    let mut stranger = RawPeer::silent(&both.server);
    stranger.send(&[frame(asked(0, 0x1003), &run(64, 64))]).await;
    assert_eq!(stranger.refusal().await.code, CloseCode::ProtocolError);

    // Exactly the limit is taken: a packet whose length takes 3 bytes.
    let mut peer = RawPeer::connect(&both.server).await;
    let exact = compressed(&to_vec(&Measure(some(99_997))).unwrap());
    peer.send(&[frame(asked(0, 0x1003), &exact)]).await;
    assert_eq!(from_slice(&peer.reply(0).await), Ok(99_997_u64));
    assert_eq!(neighbour.request(Measure(some(1))).await, Ok(1));
}

/// A frame of a few bytes that inflates to much is as large as what it inflates to.
#[tokio::test(start_paused = true)]
async fn handlers_hold_no_more_inflated_bytes_than_the_budget() {
    let pages = Pages::default();
    let mut options = Options::default();
    options.reassembly = 250_000;
    let both = Both::with(pages.clone(), options).await;
    let mut peer = RawPeer::connect(&both.server).await;
    let body = compressed(&to_vec(&Hold(some(100_000))).unwrap());
    for id in 0..3 {
        peer.send(&[frame(asked(id, 0x1005), &body)]).await;
    }
    assert_eq!(peer.status(2).await.code, Code::ResourceExhausted);
    peer.ping().await;
    assert_eq!(pages.entered.count(), 2);
    pages.go.add_permits(2);
    for id in 0..2 {
        assert_eq!(from_slice(&peer.reply(id).await), Ok(100_000_u64));
    }
    pages.go.add_permits(1);
    peer.send(&[frame(asked(2, 0x1005), &body)]).await;
    assert_eq!(from_slice(&peer.reply(2).await), Ok(100_000_u64));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_inflates_beyond_the_budget_fails_its_call_only() {
    let mut options = Options::default();
    options.reassembly = 250_000;
    let params = Params::new(MAX_MESSAGE, 100, Contracts::default()).with_compression(true);
    let (mut peer, session) = RawPeer::accept_with(options, 1 << 20, params).await;
    for (len, fits) in [(100_000, true), (300_000, false), (100_000, true)] {
        let asking = tokio::spawn({
            let session = session.clone();
            async move { session.request(page(1, false)).await }
        });
        let asked = peer.frame().await.unwrap();
        let head = Head::of_call(FrameKind::Reply, asked.id).with_compressed();
        peer.send(&[frame(head, &compressed(&to_vec(&some(len)).unwrap()))]).await;
        match soon(asking).await.unwrap() {
            Ok(bytes) => assert!(fits && bytes.len() == len),
            Err(RequestError::Status(s)) => assert!(!fits && s.code == Code::ResourceExhausted, "{s}"),
            Err(error) => panic!("{error:?}"),
        }
    }
}

/// Thousands of small frames of one read that inflate to much, about calls that there are not.
#[tokio::test(start_paused = true)]
async fn answers_to_nobody_are_dropped_however_much_they_inflate_to() {
    let params = Params::new(MAX_MESSAGE, 100, Contracts::default()).with_compression(true);
    let (mut peer, session) = RawPeer::accept_with(Options::default(), 1 << 20, params).await;
    let kinds = [FrameKind::Reply, FrameKind::Error, FrameKind::Item];
    for kind in kinds {
        let len = if kind == FrameKind::Item { FRAGMENT } else { 1 << 20 };
        let head = Head::of_call(kind, CallId::new(50)).with_compressed();
        let one = frame(head, &run(len, len));
        let frames = vec![one.clone(); 16_000 / one.len()];
        for _ in 0..3 {
            peer.send(&frames).await;
        }
    }
    let asking = tokio::spawn(async move { session.request(Measure(some(3))).await });
    let asked = peer.frame().await.unwrap();
    assert_eq!(asked.kind, FrameKind::Request);
    peer.send(&[frame(Head::of_call(FrameKind::Reply, asked.id), &to_vec(&3_u64).unwrap())]).await;
    assert_eq!(soon(asking).await.unwrap(), Ok(3));
}

#[tokio::test]
async fn a_packet_can_be_marked_compress_and_encrypt() {
    let pages = Pages::default();
    for sealing in [Sealing::All, Sealing::Marked] {
        let identity = Identity::generate().unwrap();
        let key = identity.public_key();
        let server = Server::builder().identity(identity).sealing(sealing).no_listener();
        let server = server.controller(pages.clone()).build().await.unwrap().handle();
        let (ours, theirs) = memory::pair(64 * 1024);
        server.serve_link(theirs);
        let client = Client::builder("").server_key(key).sealing(sealing).connect_over(ours).await.unwrap();
        for len in [10, 10_000, 200_000] {
            assert_eq!(client.request(Secret(some(len))).await, Ok(len as u64), "{sealing:?}");
            assert_eq!(client.request(Measure(some(len))).await, Ok(len as u64), "{sealing:?}");
            assert_eq!(client.request(page(len as u32, false)).await, Ok(some(len)), "{sealing:?}");
        }
    }
    // In the clear it neither leaves nor enters, in whatever form.
    let entered = pages.entered.entered();
    let both = Both::new(pages.clone()).await;
    let client = session(&both.server).await;
    assert_eq!(client.request(Secret(some(10_000))).await, Err(RequestError::EncryptionRequired));
    let encoded = Encoded::new(&Secret(some(10_000))).unwrap();
    assert_eq!(client.request(encoded).await, Err(RequestError::EncryptionRequired));
    let mut peer = RawPeer::connect(&both.server).await;
    let body = compressed(&to_vec(&Secret(some(10_000))).unwrap());
    peer.send(&[frame(asked(0, 0x1004), &body)]).await;
    assert_eq!(peer.status(0).await.code, Code::EncryptionRequired);
    assert_eq!(pages.entered.entered(), entered);
}

/// B19: what waits for a peer that does not read counts as it will travel.
#[tokio::test(start_paused = true)]
async fn what_waits_for_a_slow_reader_counts_as_it_travels() {
    let mut options = Options::default();
    options.outbox = 10_000;
    let params = Params::new(MAX_MESSAGE, 100, Contracts::default()).with_compression(true);
    let (mut peer, session) = RawPeer::accept_with(options, 100, params).await;
    let snapshot = Encoded::new(&Snapshot { n: 1, ballast: some(10_000) }).unwrap();
    let mut sent = 0;
    loop {
        match session.try_send(&snapshot) {
            Ok(()) => sent += 1,
            Err(SendError::Full) => break,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(sent > 100, "{sent} of 10,000 bytes each fit 10,000 bytes");
    for _ in 0..sent {
        assert_eq!(peer.frame().await.unwrap().payload.len(), 10_006);
    }
}

/// A large answer that is compressed badly goes in fragments, and can be given up.
#[tokio::test(start_paused = true)]
async fn large_compressed_messages_let_small_ones_pass() {
    let noise: Vec<u8> = (0..400_000_u32).map(|i| (i.wrapping_mul(0x9e37_79b1) >> 13) as u8).collect();
    let seen = Arc::new(Mutex::new(0));
    let params = Params::new(MAX_MESSAGE, 100, Contracts::default()).with_compression(true);
    let (mut peer, session) = RawPeer::accept_with(Options::default(), 2_000, params).await;
    let mut ballast = noise.clone();
    ballast.resize(800_000, 7);
    let large = tokio::spawn({
        let (session, seen) = (session.clone(), Arc::clone(&seen));
        async move {
            session.send(&Snapshot { n: 1, ballast: ballast.into() }).await.unwrap();
            *seen.lock().unwrap() += 1;
            session.send(&Numbered { n: 2, ballast: some(10) }).await.unwrap();
        }
    });
    soon(large).await.unwrap();
    assert_eq!(*seen.lock().unwrap(), 1);
    let first = peer.frame().await.unwrap();
    assert_eq!(first.opcode.get(), 0x3001, "the small one passes");
    let second = peer.frame().await.unwrap();
    assert_eq!((second.opcode.get(), second.payload.len()), (0x3002, 800_007));
    assert!(second.payload[7..400_007] == noise[..]);
}
