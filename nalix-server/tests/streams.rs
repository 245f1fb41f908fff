//! Streams from the server: all items, in order, and the end that they had.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{pin::Pin, task::Poll, time::Duration};

use futures_core::Stream;
use nalix_core::Wire;
use nalix_server::{Code, Context, Failure, Options, Status, StreamError, packet, packet_controller};
use tokio::time::Instant;

use support::{Both, Live, from_fn, soon};

/// That many numbers, from 0.
#[packet(opcode = 0x4001, stream = u64)]
struct Count {
    to: u64,
}

/// The same, each number behind so many bytes.
#[packet(opcode = 0x4002, stream = Vec<u8>)]
struct Blobs {
    count: u32,
    size: u32,
}

#[derive(Debug, PartialEq, Wire)]
enum Fault {
    TooMany(u64),
}

/// Fails in the way it is told to, behind three items.
#[packet(opcode = 0x4003, stream = u64, error = Fault)]
struct Fail {
    how: u8,
}

/// Never ends, and has no items.
#[packet(opcode = 0x4004, stream = u64)]
struct Silence;

#[packet(opcode = 0x4005, stream = String)]
struct Words {
    text: String,
}

#[packet(opcode = 0x4006, stream = u64)]
struct Spawned {
    to: u64,
}

#[packet(opcode = 0x1001, reply = u64)]
struct Ask(u64);

#[derive(Default, Clone)]
struct Source {
    live: Live,
    base: u64,
}

fn count(to: u64) -> impl Stream<Item = u64> + Send + 'static {
    let mut n = 0;
    from_fn(move |_| {
        n += 1;
        Poll::Ready((n <= to).then_some(n - 1))
    })
}

#[packet_controller]
impl Source {
    #[packet]
    fn count(&self, count: Count) -> impl Stream<Item = u64> {
        // Borrows from the controller.
        let (mut n, base) = (0, &self.base);
        from_fn(move |_| {
            n += 1;
            Poll::Ready((n <= count.to).then_some(base + n - 1))
        })
    }

    #[packet]
    async fn blobs(&self, blobs: Blobs) -> Pin<Box<dyn Stream<Item = Vec<u8>> + Send>> {
        let mut n = 0;
        Box::pin(from_fn(move |_| {
            n += 1;
            Poll::Ready((n <= blobs.count).then(|| vec![n as u8; blobs.size as usize]))
        }))
    }

    #[packet]
    async fn fail(&self, fail: Fail) -> Result<impl Stream<Item = Result<u64, Failure<Fault>>>, Fault> {
        if fail.how == 0 {
            return Err(Fault::TooMany(0));
        }
        let mut n = 0;
        Ok(from_fn(move |_| {
            n += 1;
            Poll::Ready(Some(match (n, fail.how) {
                (0..=3, _) => Ok(n),
                (_, 1) => Err(Failure::Application(Fault::TooMany(n))),
                (_, 2) => Err(Failure::Status(Status::new(Code::NotFound, "no more"))),
                _ => panic!("as it was asked to"),
            }))
        }))
    }

    #[packet]
    fn silence(&self, _: Silence) -> impl Stream<Item = u64> + use<> {
        let guard = self.live.enter();
        from_fn(move |_| {
            let _ = &guard;
            Poll::Pending
        })
    }

    #[packet]
    fn words(&self, _: &Context, words: Words) -> impl Stream<Item = String> {
        let mut words: Vec<String> = words.text.split(' ').rev().map(str::to_owned).collect();
        from_fn(move |_| Poll::Ready(words.pop()))
    }

    #[packet(spawn)]
    async fn spawned(&self, spawned: Spawned) -> impl Stream<Item = u64> {
        count(spawned.to)
    }

    #[packet]
    fn ask(&self, ask: Ask) -> u64 {
        ask.0
    }
}

async fn both() -> Both {
    Both::new(Source::default()).await
}

#[tokio::test(start_paused = true)]
async fn items_come_all_and_in_order() {
    for capacity in [7, 100, 64 * 1024] {
        let mut both = both().await;
        both.capacity = capacity;
        let client = both.client().await;
        for to in [0, 1, 2, 100, 10_000] {
            let mut items = client.stream(Count { to }).await.unwrap();
            for n in 0..to {
                assert_eq!(soon(items.next()).await, Some(Ok(n)), "{n} of {to}");
            }
            assert_eq!(soon(items.next()).await, None);
            assert_eq!(soon(items.next()).await, None, "nothing comes behind the end");
        }
        assert_eq!(client.connection().calls_in_flight(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn items_of_every_size_pass_through_every_window() {
    for (stream_window, max_message) in
        [(1, 100_000), (10, 100_000), (1_000, 100_000), (65_536, 300), (65_536, 0)]
    {
        let mut options = Options::default();
        (options.stream_window, options.max_message) = (stream_window, max_message);
        let mut both = Both::with(Source::default(), options.clone()).await;
        options.max_message = options.max_message.max(300);
        both.client_options = options;
        let client = both.client().await;
        if max_message < 300 {
            // Not even the packet fits.
            continue;
        }
        for size in [0, 1, 126, 127, 128, 250, 298] {
            let mut items = client.stream(Blobs { count: 50, size }).await.unwrap();
            for n in 1..=50u32 {
                assert_eq!(soon(items.next()).await, Some(Ok(vec![n as u8; size as usize])));
            }
            assert_eq!(soon(items.next()).await, None);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_item_over_the_limit_ends_the_stream_and_nothing_else() {
    // A blob has its length in front, as an item has one, which does not count.
    for (max_send, good, bad) in [(300, 298, 299), (16_384, 16_382, 16_383), (100_000, 99_997, 99_998)] {
        let mut options = Options::default();
        options.max_send = max_send;
        let both = Both::with(Source::default(), options).await;
        let client = both.client().await;
        let mut items = client.stream(Blobs { count: 1, size: good }).await.unwrap();
        assert_eq!(soon(items.next()).await.unwrap().unwrap().len(), good as usize);
        assert_eq!(soon(items.next()).await, None);
        let mut items = client.stream(Blobs { count: 2, size: bad }).await.unwrap();
        let error = soon(items.next()).await.unwrap().unwrap_err();
        assert_eq!(error.code(), Some(Code::ResourceExhausted));
        assert_eq!(soon(items.next()).await, None);
        assert_eq!(client.request(Ask(7)).await, Ok(7));
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_with_the_error_of_its_packet_or_a_status() {
    let both = both().await;
    let client = both.client().await;
    let mut refused = client.stream(Fail { how: 0 }).await.unwrap();
    assert_eq!(soon(refused.next()).await, Some(Err(StreamError::Application(Fault::TooMany(0)))));
    assert_eq!(soon(refused.next()).await, None);
    for how in 1..=3 {
        let mut items = client.stream(Fail { how }).await.unwrap();
        for n in 1..=3 {
            assert_eq!(soon(items.next()).await, Some(Ok(n)), "items before the error come first");
        }
        match (how, soon(items.next()).await.unwrap().unwrap_err()) {
            (1, StreamError::Application(fault)) => assert_eq!(fault, Fault::TooMany(4)),
            (2, error) => assert_eq!(error.code(), Some(Code::NotFound)),
            (3, error) => assert_eq!(error.code(), Some(Code::Internal)),
            other => panic!("{other:?}"),
        }
        assert_eq!(soon(items.next()).await, None);
    }
    assert_eq!(client.request(Ask(7)).await, Ok(7), "the connection goes on");
}

#[tokio::test(start_paused = true)]
async fn the_words_of_a_stream_own_what_they_say() {
    let both = both().await;
    let client = both.client().await;
    let mut words = client.stream(Words { text: "one two three".into() }).await.unwrap();
    for word in ["one", "two", "three"] {
        assert_eq!(soon(words.next()).await, Some(Ok(word.to_owned())));
    }
    assert_eq!(soon(words.next()).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_stream_on_a_task_of_its_own_comes_whole() {
    let both = both().await;
    let client = both.client().await;
    let mut items = client.stream(Spawned { to: 100_000 }).await.unwrap();
    for n in 0..100_000 {
        assert_eq!(soon(items.next()).await, Some(Ok(n)));
    }
    assert_eq!(soon(items.next()).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_ends_a_stream_on_both_sides() {
    let both = both().await;
    let client = both.client().await;
    let started = Instant::now();
    let mut items = client.stream(Silence).timeout(Duration::from_secs(5)).await.unwrap();
    assert_eq!(items.next().await, Some(Err(StreamError::Timeout)));
    assert_eq!(started.elapsed().as_secs(), 5);
    assert_eq!(items.next().await, None);
}
