//! Where messages meet limits and reads meet records: the largest and the smallest, and every place to cut a stream.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use nalix_client::Session;
use nalix_core::{
    CallId, CloseCode, Code, Connection, RequestError, SendError, Side,
    controller::{Call, Reply, ReplyBuffer},
    frame::{FrameKind, Head},
    wire::to_vec,
};
use nalix_server::{Context, Options, Server, Status, packet, packet_controller};

use support::{Blob, Both, Live, RawPeer, frame, notify, record, request, soon};

/// Answered with its size.
#[packet(opcode = 0x1001, reply = u64)]
struct Measure(Blob);

/// Answered with as many bytes.
#[packet(opcode = 0x1002, reply = Blob, error = Blob)]
struct Give {
    size: u64,
    fail: bool,
}

#[packet(opcode = 0x1003)]
struct Keep(Blob);

/// Has the other side call this one with `Measure`.
#[packet(opcode = 0x1004, reply = Outcome)]
struct MeasureMe(u64);

#[derive(Debug, PartialEq, nalix_core::Wire)]
enum Outcome {
    Size(u64),
    TooLarge(u64),
    Other(String),
}

#[derive(Default, Clone)]
struct Peer {
    kept: Live,
    measured: Live,
}

#[packet_controller]
impl Peer {
    #[packet]
    fn measure(&self, Measure(blob): Measure) -> u64 {
        drop(self.measured.enter());
        blob.0 as u64
    }

    #[packet]
    fn give(&self, give: Give) -> Result<Blob, nalix_core::Failure<Blob>> {
        let blob = Blob(give.size as usize);
        if give.fail { Err(nalix_core::Failure::Application(blob)) } else { Ok(blob) }
    }

    #[packet]
    fn keep(&self, _: Keep) {
        drop(self.kept.enter());
    }

    #[packet]
    async fn measure_me(&self, ctx: &Context, MeasureMe(size): MeasureMe) -> Outcome {
        outcome(ctx.connection(), size).await
    }
}

async fn outcome(connection: &Connection, size: u64) -> Outcome {
    match connection.request(Measure(Blob(size as usize))).await {
        Ok(size) => Outcome::Size(size),
        Err(RequestError::TooLarge { limit }) => Outcome::TooLarge(limit as u64),
        Err(other) => Outcome::Other(other.to_string()),
    }
}

async fn connect(server_max: usize, client_max: usize) -> (Both, Peer, Peer, Session) {
    let (at_server, at_client) = (Peer::default(), Peer::default());
    let mut options = Options::default();
    options.outbox = 64 << 20;
    (options.max_message, options.max_send) = (server_max, server_max);
    let mut both = Both::with(at_server.clone(), options.clone()).await;
    (options.max_message, options.max_send) = (client_max, client_max);
    both.client_options = options;
    let session = both.client_serving(at_client.clone()).await;
    (both, at_server, at_client, session)
}

/// One limit is one number, for both sides, both directions and every kind of message: the smaller of both.
#[tokio::test(start_paused = true)]
async fn the_largest_message_arrives_and_one_byte_more_fails_at_its_sender() {
    const K: usize = 1_024;
    for (server_max, client_max) in [
        (64, 64),
        (127, 200),
        (128, 127),
        (129, 129),
        (16 * K - 1, 16 * K),
        (16 * K, 64 * K),
        (70_000, 66_000),
        (1 << 20, 1 << 21),
        (3 << 20, 2_500_001),
    ] {
        let limit = server_max.min(client_max);
        let (both, at_server, at_client, session) = connect(server_max, client_max).await;
        assert_eq!(session.connection().max_message(), limit);
        assert_eq!(both.server_end().await.max_message(), limit);
        for size in [0, 1, limit - 1, limit] {
            let context = format!("{size} of {limit}");
            assert_eq!(session.request(Measure(Blob(size))).await, Ok(size as u64), "{context}");
            session.send(&Keep(Blob(size))).await.expect(&context);
            session.try_send(&Keep(Blob(size))).expect(&context);
            let give = Give { size: size as u64, fail: false };
            assert_eq!(session.request(give).await, Ok(Blob(size)), "{context}");
            let give = Give { size: size as u64, fail: true };
            assert_eq!(session.request(give).await, Err(RequestError::Application(Blob(size))), "{context}");
            let back = session.request(MeasureMe(size as u64)).await;
            assert_eq!(back, Ok(Outcome::Size(size as u64)), "{context}");
            both.server_end().await.send(&Keep(Blob(size))).await.expect(&context);
        }
        for size in [limit + 1, limit * 2] {
            let context = format!("{size} of {limit}");
            let sent = session.request(Measure(Blob(size))).await;
            assert_eq!(sent, Err(RequestError::TooLarge { limit }), "{context}");
            assert_eq!(
                session.send(&Keep(Blob(size))).await,
                Err(SendError::TooLarge { limit }),
                "{context}"
            );
            assert_eq!(session.try_send(&Keep(Blob(size))), Err(SendError::TooLarge { limit }), "{context}");
            for fail in [false, true] {
                // The handler is to blame; its caller is told, and nothing else happens.
                let failed = session.request(Give { size: size as u64, fail }).await;
                assert_eq!(failed.unwrap_err().code(), Some(Code::ResourceExhausted), "{context}");
            }
            let back = session.request(MeasureMe(size as u64)).await;
            assert_eq!(back, Ok(Outcome::TooLarge(limit as u64)), "{context}");
            let pushed = both.server_end().await.send(&Keep(Blob(size))).await;
            assert_eq!(pushed, Err(SendError::TooLarge { limit }), "{context}");
        }
        // All is as well as before, and what failed has left nothing behind.
        assert_eq!(session.request(Measure(Blob(3))).await, Ok(3));
        assert_eq!((at_server.kept.entered(), at_client.kept.entered()), (8, 4));
        assert_eq!((at_server.measured.entered(), at_client.measured.entered()), (5, 4));
        assert_eq!(session.connection().calls_in_flight(), 0);
    }
}

/// Each direction has its own limit: the smaller of what one side sends and the other takes.
#[tokio::test(start_paused = true)]
async fn the_limits_of_the_two_directions_do_not_depend_on_each_other() {
    const K: usize = 1_024;
    let limits = [100, 16 * K, 16 * K + 1, 100 * K];
    for (sends, takes) in limits.iter().flat_map(|&a| limits.map(|b| (a, b))) {
        let (at_server, at_client) = (Peer::default(), Peer::default());
        let mut options = Options::default();
        options.max_message = takes;
        let mut both = Both::with(at_server.clone(), options.clone()).await;
        (options.max_message, options.max_send) = (200 * K, sends);
        both.client_options = options;
        let session = both.client_serving(at_client.clone()).await;
        let (up, down) = (sends.min(takes), 200 * K);
        let end = both.server_end().await;
        assert_eq!((session.connection().max_message(), session.connection().max_received()), (up, down));
        assert_eq!((end.max_message(), end.max_received()), (down, takes));
        assert_eq!(session.request(Measure(Blob(up))).await, Ok(up as u64));
        let refused = session.request(Measure(Blob(up + 1))).await;
        assert_eq!(refused, Err(RequestError::TooLarge { limit: up }));
        let give = |size: usize| session.request(Give { size: size as u64, fail: false });
        assert_eq!(give(down).await, Ok(Blob(down)));
        assert_eq!(give(down + 1).await.unwrap_err().code(), Some(Code::ResourceExhausted));
        assert_eq!(outcome(&end, down as u64).await, Outcome::Size(down as u64));
        assert_eq!(outcome(&end, down as u64 + 1).await, Outcome::TooLarge(down as u64));
    }
}

/// The highest limit there is: a higher setting means the same.
#[tokio::test(start_paused = true)]
async fn the_highest_limit_is_the_one_that_is_documented() {
    let (_both, _, _, session) = connect(usize::MAX, usize::MAX).await;
    assert_eq!(session.connection().max_message(), nalix_core::session::MAX_MESSAGE);
    assert_eq!(session.request(Measure(Blob(3))).await, Ok(3));
}

/// More than one record could hold.
#[tokio::test(start_paused = true)]
async fn messages_of_32_mib_arrive() {
    let (_both, _, _, session) = connect(32 << 20, 32 << 20).await;
    let limit = session.connection().max_message();
    assert_eq!(session.request(Measure(Blob(limit))).await, Ok(limit as u64));
    assert_eq!(session.request(Measure(Blob(limit + 1))).await, Err(RequestError::TooLarge { limit }));
    let give = Give { size: limit as u64, fail: true };
    assert_eq!(session.request(give).await, Err(RequestError::Application(Blob(limit))));
}

/// A connection on which no message fits still carries statuses, and their texts.
#[tokio::test(start_paused = true)]
async fn the_lowest_limit_still_carries_statuses() {
    /// Fills a record up to every number of bytes below its target size, and adds the longest status.
    #[derive(Default)]
    struct Wordy(std::sync::atomic::AtomicUsize);
    #[packet_controller]
    impl Wordy {
        #[packet(concurrent)]
        fn measure(&self, _: Measure) -> Result<u64, Status> {
            let i = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let len = if i % CALLS == CALLS - 2 { 500 + i / CALLS } else { 5_000 };
            let advice = nalix_core::Advice::Retry { after: Some(std::time::Duration::MAX) };
            Err(Status::new(Code::Other(u16::MAX), "x".repeat(len)).with_advice(advice))
        }
    }
    const CALLS: usize = 17;
    let mut options = Options::default();
    options.max_message = 0;
    let mut both = Both::with(Wordy::default(), options).await;
    both.client_options.max_message = 0;
    let session = both.client().await;
    for _ in 0..300 {
        let calls: Vec<_> = (0..CALLS)
            .map(|_| {
                let session = session.clone();
                tokio::spawn(async move { session.request(Measure(Blob(0))).await })
            })
            .collect();
        for call in calls {
            match soon(call).await.unwrap() {
                Err(RequestError::Status(status)) => assert_eq!(status.code, Code::Other(u16::MAX)),
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(session.request(Measure(Blob(1))).await, Err(RequestError::TooLarge { limit: 0 }));
}

/// A layer may answer with a reply that was made for another connection, or for none.
#[tokio::test(start_paused = true)]
async fn a_reply_of_a_layer_that_is_too_large_is_told_to_its_caller() {
    #[derive(Clone)]
    struct Generous<S>(S);
    impl<S> tower::Service<Call> for Generous<S> {
        type Response = Reply;
        type Error = std::convert::Infallible;
        type Future = std::future::Ready<Result<Reply, Self::Error>>;

        fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Self::Error>> {
            std::task::Poll::Ready(Ok(()))
        }

        fn call(&mut self, call: Call) -> Self::Future {
            let give: Give = nalix_core::wire::from_slice(call.payload()).unwrap();
            let blob = Blob(give.size as usize);
            let buffer = ReplyBuffer::unbounded();
            std::future::ready(Ok(if give.fail { buffer.application(&blob) } else { buffer.value(&blob) }))
        }
    }
    let mut options = Options::default();
    options.max_send = 2_000;
    let server = Server::builder().plaintext().no_listener().options(options).controller(Peer::default());
    let server = server.layer(tower::layer::layer_fn(Generous)).build().await.unwrap().handle();
    let both = Both { server, capacity: 1 << 16, client_options: Options::default() };
    let session = both.client().await;
    for (size, fits) in [(2_000, true), (2_001, false), (2_000_000, false), (1, true)] {
        let value = session.request(Give { size, fail: false }).await;
        let error = session.request(Give { size, fail: true }).await;
        if fits {
            let blob = Blob(size as usize);
            assert_eq!((value, error), (Ok(blob), Err(RequestError::Application(blob))));
        } else {
            assert_eq!(value.unwrap_err().code(), Some(Code::ResourceExhausted));
            assert_eq!(error.unwrap_err().code(), Some(Code::ResourceExhausted));
        }
    }
}

/// What a peer sends over the limit ends the connection, with its code, and is never handled.
#[tokio::test(start_paused = true)]
async fn a_peer_that_sends_over_the_limit_is_told_and_closed() {
    let peer = Peer::default();
    let mut options = Options::default();
    options.max_message = 2_000;
    let both = Both::with(peer.clone(), options).await;
    let body = vec![7; 2_001];
    let id = CallId::new(0);
    for (what, over) in [
        ("request", request(0, 0x1001, &body)),
        ("one-way", notify(&Keep(Blob(2_001)))),
        ("reply", frame(Head::of_call(FrameKind::Reply, id), &body)),
        ("error", frame(Head::of_call(FrameKind::Error, id), &[&[1], &body[..]].concat())),
        ("unknown kind", frame(Head::of_call(FrameKind::Unknown(15), id), &body)),
    ] {
        let mut raw = RawPeer::connect(&both.server).await;
        raw.send(&[over, request(0, 0x1001, b"")]).await;
        let reason = raw.goodbye().await;
        assert_eq!(reason.code, CloseCode::ProtocolError, "{what}: {reason}");
        assert!(reason.message.contains("limit is 2"), "{what}: {reason}");
    }
    // Exactly at the limit is fine.
    let mut raw = RawPeer::connect(&both.server).await;
    raw.send(&[
        request(0, 0x1001, &body[1..]),
        frame(Head::of_call(FrameKind::Error, id), &body),
        frame(Head::of_call(FrameKind::Reply, id), &body[1..]),
    ])
    .await;
    assert_eq!(raw.reply(0).await, to_vec(&2_000u64).unwrap());
    raw.ping().await;
    assert_eq!((peer.measured.entered(), peer.kept.entered()), (1, 0));
}

/// A thousand calls, one byte at a time, while the other side talks as well.
#[tokio::test(start_paused = true)]
async fn a_stream_that_comes_byte_by_byte_means_the_same() {
    let peer = Peer::default();
    let both = Both::new(peer.clone()).await;
    let mut raw = RawPeer::connect(&both.server).await;
    let pusher = tokio::spawn({
        let connection = both.server_end().await;
        async move {
            for n in 0..1_000 {
                connection.send(&Keep(Blob(n % 50))).await.unwrap();
                tokio::task::yield_now().await;
            }
        }
    });
    let mut bytes = Vec::new();
    for i in 0..1_000u32 {
        let call = request(i % 100, 0x1001, &vec![7; i as usize % 300]);
        bytes.push(record(&[call, notify(&Keep(Blob(3)))]));
    }
    let (mut answers, mut pushes) = (0u32, 0);
    for (i, call) in bytes.iter().enumerate() {
        for byte in call {
            raw.write(&[*byte]).await;
            tokio::task::yield_now().await;
        }
        while (answers as usize) <= i {
            let frame = raw.frame().await.unwrap();
            if frame.kind == FrameKind::Notify {
                assert_eq!(frame.payload.len(), pushes % 50);
                pushes += 1;
                continue;
            }
            assert_eq!((frame.kind, frame.id), (FrameKind::Reply, CallId::new(answers % 100)));
            assert_eq!(frame.payload, to_vec(&u64::from(answers % 300)).unwrap());
            answers += 1;
        }
    }
    while pushes < 1_000 {
        assert_eq!(raw.frame().await.unwrap().kind, FrameKind::Notify);
        pushes += 1;
    }
    pusher.await.unwrap();
    raw.ping().await;
    assert_eq!(peer.kept.entered(), 1_000);
}

/// The same bytes, cut in two at every offset.
#[tokio::test(start_paused = true)]
async fn a_stream_may_be_cut_anywhere() {
    let both = Both::new(Peer::default()).await;
    let bytes = [
        record(&[request(0, 0x1001, &[7; 200]), request(1, 0x1001, &[])]),
        record(&[frame(Head::plain(FrameKind::Ping), b"?"), notify(&Keep(Blob(1)))]),
        record(&[request(300, 0x1001, &[7; 1])]),
    ]
    .concat();
    let mut raw = RawPeer::connect(&both.server).await;
    for cut in 0..bytes.len() {
        raw.write(&bytes[..cut]).await;
        // Whoever could run has run when the clock moves.
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        raw.write(&bytes[cut..]).await;
        for (id, size) in [(0, 200u64), (1, 0)] {
            assert_eq!(raw.reply(id).await, to_vec(&size).unwrap(), "cut at {cut}");
        }
        assert_eq!(raw.frame().await.unwrap().kind, FrameKind::Pong, "cut at {cut}");
        assert_eq!(raw.reply(300).await, to_vec(&1u64).unwrap(), "cut at {cut}");
    }
}

/// The end of the link at every offset: what was whole has been done, what was cut has not, and the reason says so.
#[tokio::test(start_paused = true)]
async fn a_link_may_end_anywhere() {
    let first = record(&[notify(&Keep(Blob(20)))]);
    let both_records = [first.clone(), record(&[notify(&Keep(Blob(5))), notify(&Keep(Blob(0)))])].concat();
    for cut in 0..=both_records.len() {
        let peer = Peer::default();
        let both = Both::new(peer.clone()).await;
        let mut raw = RawPeer::connect(&both.server).await;
        let end = both.server_end().await;
        raw.write(&both_records[..cut]).await;
        drop(raw);
        let reason = soon(end.closed()).await;
        assert_eq!((reason.code, reason.by), (CloseCode::Lost, Side::Peer), "cut at {cut}: {reason}");
        let whole = [0, first.len(), both_records.len()].contains(&cut);
        assert_eq!(reason.message.contains("before the end of a record"), !whole, "cut at {cut}: {reason}");
        let handled = if cut == both_records.len() { 3 } else { usize::from(cut >= first.len()) };
        assert_eq!(peer.kept.entered(), handled, "cut at {cut}");
        both.server_is_empty().await;
    }
}
