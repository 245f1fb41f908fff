//! Whoever waits for something about a stream is told when it cannot come any more, and a stream may be part of any
//! conversation.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{future::IntoFuture, task::Poll, time::Duration};

use futures_core::Stream;
use nalix_server::{
    Code, Context, Incoming, Options, RequestError, SendError, Status, StreamError, packet, packet_controller,
};
use tokio::{task::JoinSet, time::Instant};

use support::{Both, Live, from_fn, soon, until};

/// Never has anything.
#[packet(opcode = 0x4501, stream = u64)]
struct Silence;

/// Reads nothing, and never answers.
#[packet(opcode = 0x4502, upload = Vec<u8>, reply = ())]
struct Stuck;

/// Numbers, each asked of the client.
#[packet(opcode = 0x4503, stream = u64)]
struct Asked {
    to: u64,
}

/// Numbers, which the client has from the server's `Down`, in order.
#[packet(opcode = 0x4504, stream = u64)]
struct Down {
    depth: u64,
    to: u64,
}

#[packet(opcode = 0x1001, reply = u64)]
struct Ask(u64);

/// In order, and answered after an hour.
#[packet(opcode = 0x1002, reply = ())]
struct Sleep;

#[derive(Default, Clone)]
struct Node {
    live: Live,
}

#[packet_controller]
impl Node {
    #[packet]
    fn silence(&self, _: Silence) -> impl Stream<Item = u64> + use<> {
        let guard = self.live.enter();
        from_fn(move |_| {
            let _ = &guard;
            Poll::Pending
        })
    }

    #[packet(concurrent)]
    async fn stuck(&self, _: Stuck, chunks: Incoming<Vec<u8>>) {
        let _guard = self.live.enter();
        std::future::pending::<()>().await;
        drop(chunks);
    }

    #[packet]
    fn asked(&self, ctx: &Context, asked: Asked) -> impl Stream<Item = Result<u64, Status>> + use<> {
        let connection = ctx.connection().clone();
        let mut n = 0;
        let mut asking = None;
        from_fn(move |cx| {
            if n == asked.to {
                return Poll::Ready(None);
            }
            let ask = asking.get_or_insert_with(|| Box::pin(connection.request(Ask(n)).into_future()));
            let Poll::Ready(result) = ask.as_mut().poll(cx) else { return Poll::Pending };
            asking = None;
            n += 1;
            Poll::Ready(Some(result.map_err(|error| Status::internal(error.to_string()))))
        })
    }

    #[packet]
    async fn down(&self, ctx: &Context, down: Down) -> Result<impl Stream<Item = u64> + use<>, Status> {
        let mut below = None;
        if down.depth > 0 {
            let packet = Down { depth: down.depth - 1, to: down.to };
            let opened = ctx.stream(packet).await;
            below = Some(opened.map_err(|error| Status::internal(error.to_string()))?);
        }
        let mut n = 0;
        Ok(from_fn(move |cx| match &mut below {
            Some(below) => std::pin::Pin::new(below).poll_next(cx).map(|item| item.and_then(Result::ok)),
            None => {
                n += 1;
                Poll::Ready((n <= down.to).then_some(n - 1))
            }
        }))
    }

    #[packet]
    fn ask(&self, ask: Ask) -> u64 {
        ask.0
    }

    #[packet]
    async fn sleep(&self, _: Sleep) {
        let _guard = self.live.enter();
        tokio::time::sleep(Duration::from_secs(3_600)).await;
    }
}

/// B15: those were not woken that waited for a slot, for credit or for room.
#[tokio::test(start_paused = true)]
async fn every_kind_of_waiter_ends_with_the_connection() {
    for server_ends in [true, false] {
        let node = Node::default();
        let mut options = Options::default();
        options.max_calls = 100;
        let both = Both::with(node.clone(), options).await;
        let client = both.client().await;
        let mut tasks = JoinSet::new();
        for _ in 0..50 {
            let mut items = client.stream(Silence).await.unwrap();
            tasks.spawn(async move {
                let end = items.next().await;
                assert!(matches!(end, Some(Err(StreamError::Disconnected(_)))), "{end:?}");
                assert_eq!(items.next().await, None);
            });
        }
        for n in 0..50 {
            let mut upload = client.upload(Stuck).await.unwrap();
            tasks.spawn(async move {
                // Some wait for credit and others for the answer.
                if n % 2 == 0 {
                    let chunk = vec![1; 100_000];
                    let error = loop {
                        match upload.send(&chunk).await {
                            Ok(()) => {}
                            Err(error) => break error,
                        }
                    };
                    assert!(matches!(error, SendError::Closed(_)), "{error:?}");
                }
                let lost = upload.finish().await;
                assert!(matches!(lost, Err(RequestError::Disconnected { .. })), "{lost:?}");
            });
        }
        node.live.is(100).await;
        for _ in 0..50 {
            let client = client.clone();
            tasks.spawn(async move {
                // All slots are taken.
                let refused = client.stream(Silence).await;
                assert!(matches!(refused, Err(RequestError::Closed(_))), "{refused:?}");
            });
        }
        tokio::time::sleep(Duration::from_secs(10)).await;
        let started = Instant::now();
        match server_ends {
            true => both.server_end().await.abort(),
            false => client.connection().abort(),
        }
        while let Some(done) = soon(tasks.join_next()).await {
            done.unwrap();
        }
        node.live.is(0).await;
        assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    }
}

/// B17: a handler waits for an answer that comes in behind its own frames.
#[tokio::test(start_paused = true)]
async fn a_stream_may_ask_the_side_that_reads_it() {
    for capacity in [100, 64 * 1024] {
        let mut both = Both::new(Node::default()).await;
        both.capacity = capacity;
        let client = both.client_serving(Node::default()).await;
        let mut items = client.stream(Asked { to: 200 }).await.unwrap();
        for n in 0..200 {
            assert_eq!(soon(items.next()).await, Some(Ok(n)));
        }
        assert_eq!(soon(items.next()).await, None);
    }
}

/// B17: three deep, in order, with a single call in flight for each side.
#[tokio::test(start_paused = true)]
async fn streams_that_are_made_of_streams_of_the_other_side_come_whole_or_end_by_their_deadline() {
    for (depth, max_calls, whole) in [(3, 1_024, true), (1, 1, true), (3, 1, false)] {
        let mut options = Options::default();
        options.max_calls = max_calls;
        let mut both = Both::with(Node::default(), options.clone()).await;
        both.client_options = options;
        let client = both.client_serving(Node::default()).await;
        let packet = Down { depth, to: 20_000 };
        let mut items = client.stream(packet).timeout(Duration::from_secs(10)).await.unwrap();
        if !whole {
            // The third waits for a slot that the first holds.
            assert_eq!(soon(items.next()).await, Some(Err(StreamError::Timeout)));
            assert_eq!(soon(client.request(Ask(1)).into_future()).await, Ok(1), "nothing hangs for ever");
            continue;
        }
        for n in 0..20_000 {
            assert_eq!(soon(items.next()).await, Some(Ok(n)));
        }
        assert_eq!(soon(items.next()).await, None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_waits_for_its_turn_and_may_be_dropped_or_late_meanwhile() {
    let node = Node::default();
    let both = Both::new(node.clone()).await;
    let client = both.client().await;
    let sleeping = tokio::spawn(client.request(Sleep).timeout(Duration::from_secs(60)).into_future());
    node.live.is(1).await;
    // They come behind a handler that runs in order.
    let mut late = client.stream(Silence).timeout(Duration::from_secs(5)).await.unwrap();
    let dropped = client.stream(Silence).await.unwrap();
    let mut patient = client.stream(Down { depth: 0, to: 2 }).await.unwrap();
    assert_eq!(late.next().await, Some(Err(StreamError::Timeout)));
    drop(dropped);
    until("both are answered", || client.connection().calls_in_flight() == 2).await;
    assert_eq!(soon(patient.next()).await, Some(Ok(0)), "its turn comes when the sleeper is late");
    assert_eq!(sleeping.await.unwrap(), Err(RequestError::Timeout));
    assert_eq!((soon(patient.next()).await, soon(patient.next()).await), (Some(Ok(1)), None));
    assert_eq!(node.live.entered(), 1, "neither of the other two has started");
}

#[tokio::test(start_paused = true)]
async fn the_side_that_serves_a_stream_stops_it_at_its_deadline() {
    let node = Node::default();
    let mut options = Options::default();
    options.max_deadline = Some(Duration::from_secs(7));
    let both = Both::with(node.clone(), options).await;
    let client = both.client().await;
    let started = Instant::now();
    // The client would wait for ever, and longer than the server allows.
    let mut silent = client.stream(Silence).await.unwrap();
    let upload = client.upload(Stuck).timeout(Duration::from_secs(100)).await.unwrap();
    node.live.is(2).await;
    let end = soon(silent.next()).await;
    assert!(matches!(&end, Some(Err(StreamError::Status(s))) if s.code == Code::DeadlineExceeded), "{end:?}");
    let end = soon(upload.finish()).await;
    assert!(matches!(&end, Err(RequestError::Status(s)) if s.code == Code::DeadlineExceeded), "{end:?}");
    assert_eq!(started.elapsed().as_secs(), 7);
    node.live.is(0).await;
}

#[tokio::test(start_paused = true)]
async fn no_more_streams_run_than_calls_may_and_a_request_waits_for_none_of_them() {
    let node = Node::default();
    let mut options = Options::default();
    options.max_calls = 4;
    let both = Both::with(node.clone(), options).await;
    let client = both.client().await;
    let mut streams = Vec::new();
    for n in 0..3 {
        streams.push(client.stream(Silence).await.unwrap());
        assert_eq!(soon(client.request(Ask(n)).into_future()).await, Ok(n), "in order, and beside them");
    }
    streams.push(client.stream(Silence).await.unwrap());
    node.live.is(4).await;
    let waiting = tokio::spawn(client.request(Ask(9)).timeout(Duration::from_secs(500)).into_future());
    tokio::time::sleep(Duration::from_secs(50)).await;
    assert!(!waiting.is_finished(), "there is no slot");
    streams.pop();
    assert_eq!(soon(waiting).await.unwrap(), Ok(9));
}
