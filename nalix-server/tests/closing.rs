//! How connections end when one side wants it, and when one side does not read.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::time::Duration;

use nalix_core::{
    CloseCode, CloseReason, Code, RequestError, SendError, Side,
    frame::{Control, FrameKind, Head},
    wire::to_vec,
};
use nalix_server::{Advice, Context, Options, packet, packet_controller};
use tokio::time::Instant;

use support::{Both, Live, RawPeer, frame, notify, record, request, soon};

#[packet(opcode = 0x1001, reply = u32)]
struct Double(u32);

#[packet(opcode = 0x1002, reply = ())]
struct Never;

/// Counted by its handler.
#[packet(opcode = 0x1003)]
struct Count;

/// Answered with this many bytes.
#[packet(opcode = 0x1004, reply = Vec<u8>)]
struct Fill(u32);

/// Closes from inside the handler, with a reason.
#[packet(opcode = 0x1005, reply = u32)]
struct CloseNow;

#[derive(Default, Clone)]
struct Game {
    live: Live,
    counted: Live,
}

#[packet_controller]
impl Game {
    #[packet]
    fn double(&self, Double(n): Double) -> u32 {
        drop(self.counted.enter());
        n * 2
    }

    #[packet(concurrent)]
    async fn never(&self, _: Never) {
        let _guard = self.live.enter();
        std::future::pending::<()>().await;
    }

    #[packet]
    fn count(&self, _: Count) {
        drop(self.counted.enter());
    }

    #[packet]
    fn fill(&self, Fill(n): Fill) -> Vec<u8> {
        vec![7; n as usize]
    }

    #[packet]
    async fn close_now(&self, ctx: &Context, _: CloseNow) -> u32 {
        let reason = CloseReason::new(CloseCode::Other(4_000), "enough").with_advice(Advice::GiveUp);
        ctx.close_with(reason);
        // The first reason counts.
        ctx.close();
        1
    }
}

#[tokio::test(start_paused = true)]
async fn the_reason_of_a_close_reaches_the_peer_and_every_waiter() {
    let game = Game::default();
    let both = Both::new(game.clone()).await;
    let session = both.client().await;
    let waiting: Vec<_> = (0..20)
        .map(|_| {
            let session = session.clone();
            tokio::spawn(async move { session.request(Never).await })
        })
        .collect();
    game.live.is(20).await;
    let result = session.request(CloseNow).await;
    let reason = soon(session.closed()).await;
    assert_eq!((reason.code, reason.by), (CloseCode::Other(4_000), Side::Peer));
    assert_eq!((&*reason.message, reason.advice), ("enough", Advice::GiveUp));
    assert_eq!(result, Ok(1), "an answer that is ready is written before the goodbye");
    for call in waiting {
        match soon(call).await.unwrap() {
            Err(RequestError::Disconnected { maybe_executed: true, reason: found }) => {
                assert_eq!(found, reason);
            }
            other => panic!("{other:?}"),
        }
    }
    game.live.is(0).await;
    both.server_is_empty().await;
}

#[tokio::test(start_paused = true)]
async fn what_was_sent_before_a_close_arrives() {
    let game = Game::default();
    let mut both = Both::new(game.clone()).await;
    both.capacity = 13;
    let session = both.client().await;
    for _ in 0..500 {
        session.send(&Count).await.unwrap();
    }
    let reason = soon(session.close()).await;
    assert_eq!((reason.code, reason.by), (CloseCode::Normal, Side::Local));
    both.server_is_empty().await;
    assert_eq!(game.counted.entered(), 500);
}

#[tokio::test(start_paused = true)]
async fn nothing_can_be_sent_behind_a_close() {
    let both = Both::new(Game::default()).await;
    let session = both.client().await;
    session.connection().close();
    // The connection has not ended yet, but its end has begun.
    assert_eq!(session.connection().close_reason(), None);
    for _ in 0..2 {
        match session.request(Double(1)).await {
            Err(RequestError::Closed(reason)) => assert_eq!(reason.code, CloseCode::Normal),
            other => panic!("{other:?}"),
        }
        assert!(matches!(session.send(&Count).await, Err(SendError::Closed(_))));
        assert!(matches!(session.try_send(&Count), Err(SendError::Closed(_))));
        assert_eq!(soon(session.closed()).await.code, CloseCode::Normal);
    }
}

#[tokio::test(start_paused = true)]
async fn requests_behind_a_goodbye_are_not_executed() {
    let game = Game::default();
    let both = Both::new(game.clone()).await;
    let mut peer = RawPeer::connect(&both.server).await;
    let goodbye = Control::Close(CloseReason::new(CloseCode::Normal, "done"));
    peer.send(&[
        request(0, 0x1001, &to_vec(&Double(1)).unwrap()),
        frame(Head::plain(FrameKind::Control), &to_vec(&goodbye).unwrap()),
        request(1, 0x1001, &to_vec(&Double(1)).unwrap()),
        notify(&Count),
    ])
    .await;
    peer.write_some(&record(&[notify(&Count)])).await;
    both.server_is_empty().await;
    assert_eq!(game.counted.entered(), 1);
}

/// What the peer sends after it has been told goodbye is not looked at, however much it is.
#[tokio::test(start_paused = true)]
async fn a_peer_that_talks_on_after_our_goodbye_is_not_heard() {
    let game = Game::default();
    let both = Both::new(game.clone()).await;
    let mut peer = RawPeer::connect(&both.server).await;
    both.server_end().await.close();
    let start = Instant::now();
    assert_eq!(peer.goodbye().await.code, CloseCode::Normal);
    for _ in 0..100 {
        peer.write_some(&record(&[notify(&Count)])).await;
    }
    // It does not end its direction either: the server waits for a while, and goes.
    both.server_is_empty().await;
    assert!(start.elapsed() < Duration::from_millis(1_100), "{:?}", start.elapsed());
    assert_eq!(game.counted.entered(), 0);
}

/// A handler that finishes while the goodbye is on its way does not change why the connection has ended.
#[tokio::test(start_paused = true)]
async fn answers_that_come_behind_a_close_are_dropped() {
    #[derive(Default, Clone)]
    struct Late;
    #[packet_controller]
    impl Late {
        #[packet(concurrent)]
        async fn double(&self, ctx: &Context, Double(n): Double) -> u32 {
            ctx.close();
            tokio::time::sleep(Duration::from_millis(u64::from(n))).await;
            n
        }
    }
    let both = Both::new(Late).await;
    let mut peer = RawPeer::connect(&both.server).await;
    let connection = both.server_end().await;
    let calls: Vec<_> = (0..10).map(|i| request(i, 0x1001, &to_vec(&Double(i * 50)).unwrap())).collect();
    peer.send(&calls).await;
    // `goodbye` checks that nothing comes behind it.
    let reason = loop {
        match peer.frame().await.expect("a goodbye") {
            answer if answer.kind == FrameKind::Reply => {}
            last => break last,
        }
    };
    assert_eq!(reason.kind, FrameKind::Control);
    assert_eq!(peer.frame().await, None);
    let reason = soon(connection.closed()).await;
    assert_eq!((reason.code, reason.by), (CloseCode::Normal, Side::Local));
}

#[tokio::test(start_paused = true)]
async fn both_sides_may_close_at_once() {
    for _ in 0..50 {
        let both = Both::new(Game::default()).await;
        let session = both.client().await;
        session.request(Double(1)).await.unwrap();
        let theirs = both.server.connections()[0].clone();
        theirs.close();
        session.connection().close();
        assert_eq!(soon(session.closed()).await.code, CloseCode::Normal);
        assert_eq!(soon(theirs.closed()).await.code, CloseCode::Normal);
        both.server_is_empty().await;
    }
}

/// The peer takes nothing of what is written to it: it is dropped after the time allowed, and until then what waits for
/// it stays bounded.
#[tokio::test(start_paused = true)]
async fn a_peer_that_does_not_read_is_dropped_and_costs_bounded_memory() {
    let mut options = Options::default();
    options.outbox = 10_000;
    options.stall_timeout = Duration::from_secs(20);
    let both = Both::with(Game::default(), options).await;
    let peer = RawPeer::connect_over(&both.server, 1_000).await;
    let connection = both.server_end().await;
    let start = Instant::now();
    // Each wants a reply of 4,000 bytes. The server stops reading long before all are sent.
    let flood: Vec<_> =
        (0..1_000).map(|i| record(&[request(i, 0x1004, &to_vec(&Fill(4_000)).unwrap())])).collect();
    let (mut rx, mut tx) = tokio::io::split(peer.stream);
    let writer = tokio::spawn(async move {
        let mut written = 0;
        for call in flood {
            if tokio::io::AsyncWriteExt::write_all(&mut tx, &call).await.is_err() {
                break;
            }
            written += 1;
        }
        written
    });
    // One who sends to this peer waits, and is told how it ended.
    let sender = tokio::spawn({
        let connection = connection.clone();
        async move {
            loop {
                if let Err(error) = connection.send(&Count).await {
                    break error;
                }
            }
        }
    });
    let reason = soon(connection.closed()).await;
    assert_eq!((reason.code, reason.by), (CloseCode::SlowConsumer, Side::Local), "{reason}");
    let after = start.elapsed().as_secs();
    assert!((20..=21).contains(&after), "{after} s");
    // The message says how much was waiting: at most what may wait, one reply more, and some small packets.
    let waiting: usize = reason.message.split(' ').find_map(|word| word.parse().ok()).unwrap();
    assert!(waiting <= 10_000 + 4_100, "{waiting}");
    match soon(sender).await.unwrap() {
        SendError::Closed(found) => assert_eq!(found, reason),
        other => panic!("{other:?}"),
    }
    soon(writer).await.unwrap();
    let mut rest = Vec::new();
    soon(tokio::io::AsyncReadExt::read_to_end(&mut rx, &mut rest)).await.unwrap();
    both.server_is_empty().await;
}

/// A slow reader is not a dead one: as long as it takes something, it stays.
#[tokio::test(start_paused = true)]
async fn a_peer_that_reads_slowly_stays() {
    let mut options = Options::default();
    options.stall_timeout = Duration::from_secs(5);
    let both = Both::with(Game::default(), options).await;
    let mut peer = RawPeer::connect_over(&both.server, 64).await;
    peer.send(&[request(0, 0x1004, &to_vec(&Fill(1_000)).unwrap())]).await;
    let mut got = 0;
    while got < 1_000 {
        tokio::time::sleep(Duration::from_secs(4)).await;
        let mut some = [0; 64];
        got += soon(tokio::io::AsyncReadExt::read(&mut peer.stream, &mut some)).await.unwrap();
    }
    assert_eq!(both.server.connection_count(), 1);
}

/// A close that cannot be written is given up in time.
#[tokio::test(start_paused = true)]
async fn a_close_towards_a_deaf_peer_ends_in_time() {
    let both = Both::new(Game::default()).await;
    let mut peer = RawPeer::connect_over(&both.server, 64).await;
    peer.send(&[request(0, 0x1004, &to_vec(&Fill(1_000)).unwrap())]).await;
    let connection = both.server_end().await;
    let start = Instant::now();
    connection.close();
    let reason = soon(connection.closed()).await;
    assert_eq!((reason.code, reason.by), (CloseCode::Normal, Side::Local));
    assert_eq!(start.elapsed(), Duration::from_secs(1));
    drop(peer);
}

/// Everyone who waits to send is told at once when this side closes, not when the close is done.
#[tokio::test(start_paused = true)]
async fn waiting_senders_do_not_outlive_a_close() {
    let mut options = Options::default();
    options.outbox = 1;
    let both = Both::with(Game::default(), options).await;
    let _peer = RawPeer::connect_over(&both.server, 64).await;
    let connection = both.server_end().await;
    let senders: Vec<_> = (0..10)
        .map(|_| {
            let connection = connection.clone();
            tokio::spawn(async move {
                loop {
                    if let Err(error) = connection.send(&Count).await {
                        break error;
                    }
                }
            })
        })
        .collect();
    // With paused time this returns when all of them wait.
    tokio::time::sleep(Duration::from_millis(10)).await;
    let start = Instant::now();
    connection.close();
    for sender in senders {
        assert!(matches!(soon(sender).await.unwrap(), SendError::Closed(_)));
    }
    assert!(start.elapsed() < Duration::from_millis(5), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_draining_server_finishes_what_runs_and_refuses_what_comes() {
    let both = Both::new(Game::default()).await;
    let mut peer = RawPeer::connect(&both.server).await;
    peer.send(&[request(0, 0x1002, b"")]).await;
    peer.ping().await;
    both.server_end().await.drain(Duration::from_secs(30));
    let notice = peer.frame().await.unwrap();
    assert_eq!(Control::decode(&notice.payload), Ok(Control::Drain { within: Duration::from_secs(30) }));
    peer.send(&[request(1, 0x1001, &to_vec(&Double(1)).unwrap())]).await;
    let refused = peer.status(1).await;
    assert_eq!(refused.code, Code::Unavailable);
    assert!(refused.is_retryable());
    peer.send(&[support::cancel(0)]).await;
    assert_eq!(peer.status(0).await.code, Code::Cancelled);
    // Nothing runs any more.
    assert_eq!(peer.goodbye().await.code, CloseCode::GoingAway);
}

/// Calls that wait for their turn when this side closes are not started any more.
#[tokio::test(start_paused = true)]
async fn calls_that_wait_when_a_connection_closes_are_not_started() {
    #[derive(Default, Clone)]
    struct Slow(Live);
    #[packet_controller]
    impl Slow {
        #[packet]
        async fn double(&self, Double(n): Double) -> u32 {
            let _guard = self.0.enter();
            tokio::time::sleep(Duration::from_millis(100)).await;
            n
        }
    }
    let slow = Slow::default();
    let both = Both::with(slow.clone(), Options::default()).await;
    let mut peer = RawPeer::connect(&both.server).await;
    let calls: Vec<_> = (0..10).map(|id| request(id, 0x1001, &to_vec(&Double(1)).unwrap())).collect();
    peer.send(&calls).await;
    slow.0.is(1).await;
    both.server_end().await.close();
    // The peer neither reads nor goes: closing takes as long as it may.
    both.server_is_empty().await;
    assert_eq!(slow.0.entered(), 1);
    slow.0.is(0).await;
    drop(peer);
}
