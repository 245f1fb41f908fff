//! Uploads and streams in both directions, asked for by either side.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{
    future::IntoFuture,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_core::Stream;
use nalix_core::Wire;
use nalix_server::{
    Code, Context, Failure, Incoming, Options, RequestError, SendError, Status, StreamError, packet,
    packet_controller,
};
use tokio::{sync::Notify, time::Instant};

use support::{Both, Live, from_fn, soon, until};

#[derive(Debug, PartialEq, Wire)]
enum Refusal {
    TooLong(u64),
}

/// Adds the chunks up; refuses sums above the limit as soon as there is one.
#[packet(opcode = 0x4101, upload = u64, reply = u64, error = Refusal)]
struct Sum {
    limit: u64,
}

/// Answers without reading anything.
#[packet(opcode = 0x4102, upload = Vec<u8>, reply = String)]
struct Unread;

/// Reads nothing, and never answers.
#[packet(opcode = 0x4103, upload = Vec<u8>, reply = ())]
struct Stuck;

/// Gives back each line with the number of lines before it.
#[packet(opcode = 0x4104, upload = String, stream = (u64, String))]
struct Shell;

/// What the server does with a client's controller.
#[packet(opcode = 0x4105, reply = u64)]
struct SumYourself {
    to: u64,
}

/// Drops its upload and answers when it is let go.
#[packet(opcode = 0x4106, upload = Vec<u8>, reply = u8)]
struct Fed;

#[packet(opcode = 0x1001, reply = u64)]
struct Ask(u64);

#[derive(Default, Clone)]
struct Sink {
    live: Live,
    seen: Arc<AtomicU64>,
    go: Arc<Notify>,
}

#[packet_controller]
impl Sink {
    #[packet(concurrent)]
    async fn sum(&self, sum: Sum, mut chunks: Incoming<u64>) -> Result<u64, Failure<Refusal>> {
        let mut total = 0;
        while let Some(chunk) = chunks.next().await {
            match chunk {
                Ok(chunk) => total += chunk,
                Err(StreamError::Status(status)) => return Err(Failure::Status(status)),
                Err(error) => panic!("{error}"),
            }
            self.seen.store(total, Ordering::Relaxed);
            if total > sum.limit {
                return Err(Failure::Application(Refusal::TooLong(total)));
            }
        }
        Ok(total)
    }

    #[packet(concurrent)]
    fn unread(&self, _: Unread, _chunks: Incoming<Vec<u8>>) -> String {
        "no, thanks".into()
    }

    #[packet(concurrent)]
    async fn stuck(&self, _: Stuck, chunks: Incoming<Vec<u8>>) {
        let _guard = self.live.enter();
        std::future::pending::<()>().await;
        drop(chunks);
    }

    #[packet]
    fn shell(
        &self,
        ctx: &Context,
        _: Shell,
        mut lines: Incoming<String>,
    ) -> impl Stream<Item = (u64, String)> {
        let guard = self.live.enter();
        let _ = ctx;
        let mut n = 0;
        from_fn(move |cx| {
            let _ = &guard;
            let next = std::pin::Pin::new(&mut lines).poll_next(cx);
            next.map(|line| {
                line.and_then(Result::ok).map(|line| {
                    n += 1;
                    (n - 1, line)
                })
            })
        })
    }

    #[packet(concurrent)]
    async fn fed(&self, _: Fed, chunks: Incoming<Vec<u8>>) -> u8 {
        let _guard = self.live.enter();
        drop(chunks);
        self.go.notified().await;
        9
    }

    /// Uploads to whoever asks.
    #[packet(concurrent)]
    async fn sum_yourself(&self, ctx: &Context, sum: SumYourself) -> Result<u64, Status> {
        let mut upload =
            ctx.upload(Sum { limit: u64::MAX }).await.map_err(|_| Status::internal("no upload"))?;
        for n in 0..sum.to {
            upload.send(&n).await.map_err(|_| Status::internal("stopped"))?;
        }
        upload.finish().await.map_err(|_| Status::internal("no sum"))
    }

    #[packet]
    fn ask(&self, ask: Ask) -> u64 {
        ask.0
    }
}

#[tokio::test(start_paused = true)]
async fn every_chunk_arrives_in_either_direction() {
    for capacity in [7, 64 * 1024] {
        let mut both = Both::new(Sink::default()).await;
        both.capacity = capacity;
        let client = both.client_serving(Sink::default()).await;
        for to in [0, 1, 20_000] {
            let mut upload = client.upload(Sum { limit: u64::MAX }).await.unwrap();
            for n in 0..to {
                soon(upload.send(&n)).await.unwrap();
            }
            let expected = (0..to).sum::<u64>();
            assert_eq!(soon(upload.finish()).await, Ok(expected));
            assert_eq!(soon(client.request(SumYourself { to }).into_future()).await, Ok(expected));
        }
        assert_eq!(client.connection().calls_in_flight(), 0);
        assert_eq!(both.server_end().await.calls_in_flight(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn an_upload_that_is_refused_on_the_way_stops_its_sender() {
    let both = Both::new(Sink::default()).await;
    let client = both.client().await;
    let mut upload = client.upload(Sum { limit: 10 }).await.unwrap();
    let mut sent = 0;
    let error = loop {
        match soon(upload.send(&1)).await {
            Ok(()) => sent += 1,
            Err(error) => break error,
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(error, SendError::Stopped);
    assert!(sent > 10);
    assert_eq!(soon(upload.finish()).await, Err(RequestError::Application(Refusal::TooLong(11))));
    let upload = client.upload(Unread).await.unwrap();
    assert_eq!(soon(upload.finish()).await, Ok("no, thanks".into()));
    assert_eq!(client.request(Ask(1)).await, Ok(1));
}

#[tokio::test(start_paused = true)]
async fn nobody_reads_and_the_sender_waits_with_bounded_memory() {
    let controller = Sink::default();
    let mut options = Options::default();
    // So that each starts with the whole window.
    (options.stream_window, options.max_calls) = (10_000, 100);
    let both = Both::with(controller.clone(), options).await;
    let client = both.client().await;
    let mut upload = client.upload(Stuck).await.unwrap();
    let chunk = vec![1; 995];
    let mut sent = 0;
    while tokio::time::timeout(Duration::from_secs(60), upload.send(&chunk)).await.is_ok() {
        sent += 1;
    }
    // Each takes 999 bytes, and the last goes beyond the window.
    assert_eq!(sent, 11);
    assert_eq!(client.request(Ask(1)).await, Ok(1), "a request is not held up");
    drop(upload);
    controller.live.is(0).await;
    until("the call is answered", || client.connection().calls_in_flight() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_drops_its_upload_stops_the_sender_within_a_round_trip() {
    let controller = Sink::default();
    let both = Both::new(controller.clone()).await;
    let client = both.client().await;
    let mut upload = client.upload(Fed).await.unwrap();
    controller.live.is(1).await;
    let started = Instant::now();
    let chunk = vec![1; 1000];
    let error = loop {
        if let Err(error) = soon(upload.send(&chunk)).await {
            break error;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(error, SendError::Stopped);
    assert_eq!(started.elapsed(), Duration::ZERO, "not even a timer had to fire");
    controller.go.notify_one();
    assert_eq!(soon(upload.finish()).await, Ok(9), "the call goes on");
}

#[tokio::test(start_paused = true)]
async fn lines_go_both_ways_at_once() {
    for capacity in [7, 64 * 1024] {
        let controller = Sink::default();
        let mut both = Both::new(controller.clone()).await;
        both.capacity = capacity;
        let client = both.client().await;
        let (mut lines, mut answers) = client.duplex(Shell).await.unwrap();
        for n in 0..100 {
            soon(lines.send(&format!("line {n}"))).await.unwrap();
            assert_eq!(soon(answers.next()).await, Some(Ok((n, format!("line {n}")))));
        }
        // Its lane is free while it runs.
        assert_eq!(soon(client.request(Ask(1)).into_future()).await, Ok(1));
        lines.finish().unwrap();
        assert_eq!(soon(answers.next()).await, None);
        controller.live.is(0).await;
        assert_eq!(client.connection().calls_in_flight(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn dropping_what_comes_back_ends_both_directions() {
    let controller = Sink::default();
    let both = Both::new(controller.clone()).await;
    let client = both.client().await;
    let (mut lines, answers) = client.duplex(Shell).await.unwrap();
    controller.live.is(1).await;
    drop(answers);
    controller.live.is(0).await;
    assert_eq!(soon(lines.send(&String::new())).await, Err(SendError::Stopped));
    assert_eq!(lines.finish(), Err(SendError::Stopped));
    until("the call is answered", || client.connection().calls_in_flight() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_given_up_upload_is_no_whole_one() {
    let controller = Sink::default();
    let both = Both::new(controller.clone()).await;
    let client = both.client().await;
    // The handler takes an error for the end, which is how it is told apart.
    let (mut lines, mut answers) = client.duplex(Shell).await.unwrap();
    soon(lines.send(&"half".to_owned())).await.unwrap();
    drop(lines);
    assert_eq!(soon(answers.next()).await, Some(Ok((0, "half".into()))));
    assert_eq!(soon(answers.next()).await, None);
    let mut upload = client.upload(Sum { limit: 100 }).await.unwrap();
    soon(upload.send(&5)).await.unwrap();
    let failed = soon(upload.fail(&Status::new(Code::DataLoss, "disk"))).await;
    assert!(matches!(&failed, Err(RequestError::Status(s)) if s.code == Code::DataLoss), "{failed:?}");
    assert_eq!(controller.seen.load(Ordering::Relaxed), 5, "what was sent before it has arrived");
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_ends_uploads_on_both_sides() {
    let controller = Sink::default();
    let both = Both::new(controller.clone()).await;
    let client = both.client().await;
    let upload = client.upload(Stuck).await.unwrap();
    let (mut lines, mut answers) = client.duplex(Shell).await.unwrap();
    controller.live.is(2).await;
    both.server_end().await.abort();
    controller.live.is(0).await;
    assert!(matches!(soon(answers.next()).await, Some(Err(StreamError::Disconnected(_)))));
    assert_eq!(soon(answers.next()).await, None);
    assert!(matches!(soon(lines.send(&String::new())).await, Err(SendError::Closed(_))));
    let lost = soon(upload.finish()).await;
    assert!(matches!(lost, Err(RequestError::Disconnected { maybe_executed: true, .. })), "{lost:?}");
}

#[tokio::test(start_paused = true)]
async fn an_upload_has_a_deadline_if_it_is_given_one() {
    let controller = Sink::default();
    let both = Both::new(controller.clone()).await;
    let client = both.client().await;
    let started = Instant::now();
    let upload = client.upload(Stuck).timeout(Duration::from_secs(5)).await.unwrap();
    assert_eq!(upload.finish().await, Err(RequestError::Timeout));
    assert_eq!(started.elapsed().as_secs(), 5);
    controller.live.is(0).await;
}

#[tokio::test(start_paused = true)]
async fn a_chunk_over_the_limit_is_refused_and_the_upload_goes_on() {
    let mut options = Options::default();
    options.max_message = 300;
    let both = Both::with(Sink::default(), options).await;
    let client = both.client().await;
    let mut upload = client.upload(Unread).await.unwrap();
    assert_eq!(soon(upload.send(&vec![0; 299])).await, Err(SendError::TooLarge { limit: 300 }));
    soon(upload.send(&vec![0; 298])).await.unwrap();
    assert!(soon(upload.finish()).await.is_ok());
}
