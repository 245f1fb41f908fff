//! Uploads of whole streams: `finish_with` and `try_finish_with` tell the answer, whatever has become of the chunks.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{
    cell::Cell,
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use nalix_core::Wire;
use nalix_server::{
    Failure, Incoming, Options, RequestError, Status, StreamError, packet, packet_controller, stream,
};
use tokio::time::Instant;

use support::{Both, Live, soon, until};

#[derive(Debug, PartialEq, Wire)]
enum Refusal {
    TooLong(u64),
}

/// Adds the lengths up; refuses sums above the limit as soon as there is one.
#[packet(opcode = 0x4301, upload = Vec<u8>, reply = u64, error = Refusal)]
struct Sum {
    limit: u64,
}

/// Answers without reading anything.
#[packet(opcode = 0x4302, upload = Vec<u8>, reply = String)]
struct Unread;

/// Reads nothing, and never answers.
#[packet(opcode = 0x4303, upload = Vec<u8>, reply = ())]
struct Stuck;

#[packet(opcode = 0x1301, reply = u64)]
struct Ask(u64);

#[derive(Default, Clone)]
struct Sink {
    live: Live,
    /// Chunks that have come, and uploads that have come to a clean end.
    chunks: Arc<AtomicU64>,
    whole: Arc<AtomicU64>,
}

#[packet_controller]
impl Sink {
    #[packet(concurrent)]
    async fn sum(&self, sum: Sum, mut chunks: Incoming<Vec<u8>>) -> Result<u64, Failure<Refusal>> {
        let _guard = self.live.enter();
        let mut total = 0;
        while let Some(chunk) = chunks.next().await {
            match chunk {
                Ok(chunk) => total += chunk.len() as u64,
                Err(StreamError::Status(status)) => return Err(Failure::Status(status)),
                Err(error) => panic!("{error}"),
            }
            self.chunks.fetch_add(1, Ordering::Relaxed);
            if total > sum.limit {
                return Err(Failure::Application(Refusal::TooLong(total)));
            }
        }
        self.whole.fetch_add(1, Ordering::Relaxed);
        Ok(total)
    }

    #[packet(concurrent)]
    fn unread(&self, _: Unread, _chunks: Incoming<Vec<u8>>) -> String {
        "no, thanks".into()
    }

    #[packet(concurrent)]
    async fn stuck(&self, _: Stuck, chunks: Incoming<Vec<u8>>) {
        let _guard = self.live.enter();
        pending::<()>().await;
        drop(chunks);
    }

    #[packet]
    fn ask(&self, ask: Ask) -> u64 {
        ask.0
    }
}

impl Sink {
    fn whole(&self) -> u64 {
        self.whole.load(Ordering::Relaxed)
    }
}

const ALL: Sum = Sum { limit: u64::MAX };

#[tokio::test(start_paused = true)]
async fn all_chunks_arrive_and_the_answer_comes_back() {
    for capacity in [7, 64 * 1024] {
        let mut both = Both::new(Sink::default()).await;
        both.capacity = capacity;
        let client = both.client().await;
        for count in [0, 1, 2_000] {
            let upload = client.upload(ALL).await.unwrap();
            let sent = soon(upload.finish_with(stream::iter((0..count).map(|_| vec![1; 10])))).await;
            assert_eq!(sent, Ok(10 * count));
            let upload = client.upload(ALL).await.unwrap();
            let chunks = stream::iter((0..count).map(|_| Ok::<_, Status>(vec![1; 10])));
            assert_eq!(soon(upload.try_finish_with(chunks)).await, Ok(Ok(10 * count)));
        }
        assert_eq!(client.connection().calls_in_flight(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_on_the_way_is_the_answer_and_the_rest_is_not_asked_for() {
    let client = Both::new(Sink::default()).await.client().await;
    let made = Cell::new(0_u64);
    let chunks = || {
        made.set(0);
        stream::iter(std::iter::repeat_with(|| {
            made.set(made.get() + 1);
            vec![0; 1_000]
        }))
    };
    let upload = client.upload(Sum { limit: 1_500 }).await.unwrap();
    let refused = soon(upload.finish_with(chunks())).await;
    assert_eq!(refused, Err(RequestError::Application(Refusal::TooLong(2_000))));
    // What fits the window, and no more.
    assert!((2..200).contains(&made.get()), "{}", made.get());
    let upload = client.upload(Unread).await.unwrap();
    assert_eq!(soon(upload.finish_with(chunks())).await, Ok("no, thanks".into()));
    assert_eq!(client.connection().calls_in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_answer_does_not_wait_for_chunks_that_never_come() {
    let client = Both::new(Sink::default()).await.client().await;
    let upload = client.upload(Sum { limit: 5 }).await.unwrap();
    let chunks = stream::generate(async |mut chunks| {
        chunks.send(vec![0; 6]).await;
        pending::<()>().await;
    });
    let refused = soon(upload.finish_with(chunks)).await;
    assert_eq!(refused, Err(RequestError::Application(Refusal::TooLong(6))));
    let upload = client.upload(Unread).await.unwrap();
    let chunks = stream::poll_fn(|_| std::task::Poll::<Option<Result<_, Status>>>::Pending);
    assert_eq!(soon(upload.try_finish_with(chunks)).await, Ok(Ok("no, thanks".into())));
}

#[tokio::test(start_paused = true)]
async fn an_upload_whose_chunk_is_too_large_is_not_taken_for_a_whole_one() {
    let sink = Sink::default();
    let mut options = Options::default();
    options.max_message = 300;
    let client = Both::with(sink.clone(), options).await.client().await;
    let upload = client.upload(ALL).await.unwrap();
    let chunks = [vec![0; 200], vec![0; 400], vec![0; 200]];
    assert_eq!(
        soon(upload.finish_with(stream::iter(chunks))).await,
        Err(RequestError::TooLarge { limit: 300 })
    );
    until("the call is over", || client.connection().calls_in_flight() == 0).await;
    sink.live.is(0).await;
    assert_eq!(sink.whole(), 0);
    assert_eq!(client.request(Ask(1)).await, Ok(1));
}

#[tokio::test(start_paused = true)]
async fn chunks_that_cannot_be_made_cancel_the_upload_and_say_why() {
    let sink = Sink::default();
    let client = Both::new(sink.clone()).await.client().await;
    let upload = client.upload(ALL).await.unwrap();
    let chunks = {
        let sink = sink.clone();
        stream::try_generate(async move |mut chunks| {
            chunks.send(vec![0; 10]).await;
            until("it has come", || sink.chunks.load(Ordering::Relaxed) == 1).await;
            Err("the disk is broken")
        })
    };
    assert_eq!(soon(upload.try_finish_with(chunks)).await, Err("the disk is broken"));
    until("the call is over", || client.connection().calls_in_flight() == 0).await;
    sink.live.is(0).await;
    assert_eq!(sink.whole(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_is_told_though_no_chunk_comes() {
    let sink = Sink::default();
    let both = Both::new(sink.clone()).await;
    let client = both.client().await;
    let upload = client.upload(ALL).await.unwrap();
    let sending = tokio::spawn(upload.finish_with(stream::generate(async |_| pending().await)));
    sink.live.is(1).await;
    both.server_end().await.abort();
    let lost = soon(sending).await.unwrap();
    assert!(matches!(lost, Err(RequestError::Disconnected { maybe_executed: true, .. })), "{lost:?}");
    assert_eq!(sink.whole(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_deadline_holds_while_no_chunk_comes_and_while_none_is_taken() {
    let sink = Sink::default();
    let client = Both::new(sink.clone()).await.client().await;
    let started = Instant::now();
    let upload = client.upload(ALL).timeout(Duration::from_secs(5)).await.unwrap();
    let nothing = stream::generate(async |mut chunks| {
        chunks.send(vec![0; 10]).await;
        pending::<()>().await;
    });
    assert_eq!(soon(upload.finish_with(nothing)).await, Err(RequestError::Timeout));
    assert_eq!(started.elapsed().as_secs(), 5);
    let upload = client.upload(Stuck).timeout(Duration::from_secs(5)).await.unwrap();
    let endless = stream::iter(std::iter::repeat_with(|| vec![0; 1_000]));
    assert_eq!(soon(upload.finish_with(endless)).await, Err(RequestError::Timeout));
    assert_eq!(started.elapsed().as_secs(), 10);
    sink.live.is(0).await;
    assert_eq!(sink.whole(), 0, "what is not complete is not ended as if it was");
}
