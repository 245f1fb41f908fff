//! Streams on secured connections, all sealed or only those of marked packets: in both directions, and however they end.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{future::IntoFuture, task::Poll, time::Duration};

use futures_core::Stream;
use nalix_client::{Client, Session};
use nalix_core::{Sealing, Wire, link::memory};
use nalix_server::{
    Code, Context, Failure, Identity, Incoming, Options, RequestError, SendError, Server, ServerHandle,
    Status, StreamError, packet, packet_controller,
};
use tokio::time::Instant;

use support::{Live, from_fn, soon, until};

#[derive(Debug, PartialEq, Wire)]
enum Fault {
    TooMany(u64),
}

/// Numbers from 0; from `fail` on there are errors.
#[packet(opcode = 0x4401, stream = u64, error = Fault)]
struct Open {
    to: u64,
    fail: u64,
}

#[packet(opcode = 0x4402, stream = u64, error = Fault, encrypt)]
struct Marked {
    to: u64,
    fail: u64,
}

/// Adds the chunks up, as far as the limit.
#[packet(opcode = 0x4403, upload = Vec<u8>, reply = u64, error = Fault)]
struct OpenSum {
    limit: u64,
}

#[packet(opcode = 0x4404, upload = Vec<u8>, reply = u64, error = Fault, encrypt)]
struct MarkedSum {
    limit: u64,
}

#[packet(opcode = 0x4405, upload = String, stream = String)]
struct OpenEcho;

#[packet(opcode = 0x4406, upload = String, stream = String, encrypt)]
struct MarkedEcho;

/// Has the server ask the client for its numbers, and add them up.
#[packet(opcode = 0x4407, reply = u64)]
struct Mine {
    marked: bool,
    to: u64,
}

#[packet(opcode = 0x1001, reply = u64)]
struct Ask(u64);

#[derive(Default, Clone)]
struct Game {
    live: Live,
}

impl Game {
    fn numbers(&self, to: u64, fail: u64) -> impl Stream<Item = Result<u64, Failure<Fault>>> + use<> {
        let guard = self.live.enter();
        let mut n = 0;
        from_fn(move |_| {
            let _ = &guard;
            n += 1;
            Poll::Ready(match n - 1 {
                n if n >= fail => Some(Err(Failure::Application(Fault::TooMany(n)))),
                n if n == to => None,
                n if n > 1_000_000 => return Poll::Pending,
                n => Some(Ok(n)),
            })
        })
    }

    async fn sum(&self, limit: u64, mut chunks: Incoming<Vec<u8>>) -> Result<u64, Failure<Fault>> {
        let _guard = self.live.enter();
        let mut sum = 0;
        while let Some(chunk) = chunks.next().await {
            match chunk {
                Ok(chunk) => sum += chunk.len() as u64,
                Err(StreamError::Status(status)) => return Err(Failure::Status(status)),
                Err(error) => return Err(Failure::Status(Status::internal(error.to_string()))),
            }
            if sum > limit {
                return Err(Failure::Application(Fault::TooMany(sum)));
            }
        }
        Ok(sum)
    }

    fn echo(&self, mut lines: Incoming<String>) -> impl Stream<Item = String> + use<> {
        let guard = self.live.enter();
        from_fn(move |cx| {
            let _ = &guard;
            std::pin::Pin::new(&mut lines).poll_next(cx).map(|line| line.and_then(Result::ok))
        })
    }
}

#[packet_controller]
impl Game {
    #[packet]
    fn open(&self, open: Open) -> impl Stream<Item = Result<u64, Failure<Fault>>> + use<> {
        self.numbers(open.to, open.fail)
    }

    #[packet]
    fn marked(&self, marked: Marked) -> impl Stream<Item = Result<u64, Failure<Fault>>> + use<> {
        self.numbers(marked.to, marked.fail)
    }

    #[packet(concurrent)]
    async fn open_sum(&self, sum: OpenSum, chunks: Incoming<Vec<u8>>) -> Result<u64, Failure<Fault>> {
        self.sum(sum.limit, chunks).await
    }

    #[packet(concurrent)]
    async fn marked_sum(&self, sum: MarkedSum, chunks: Incoming<Vec<u8>>) -> Result<u64, Failure<Fault>> {
        self.sum(sum.limit, chunks).await
    }

    #[packet]
    fn open_echo(&self, _: OpenEcho, lines: Incoming<String>) -> impl Stream<Item = String> + use<> {
        self.echo(lines)
    }

    #[packet]
    fn marked_echo(&self, _: MarkedEcho, lines: Incoming<String>) -> impl Stream<Item = String> + use<> {
        self.echo(lines)
    }

    #[packet(concurrent)]
    async fn mine(&self, ctx: &Context, mine: Mine) -> Result<u64, Status> {
        let failed = |_| Status::internal("no stream");
        let mut items = if mine.marked {
            ctx.stream(Marked { to: mine.to, fail: u64::MAX }).await.map_err(failed)?
        } else {
            ctx.stream(Open { to: mine.to, fail: u64::MAX }).await.map_err(failed)?
        };
        let mut sum = 0;
        while let Some(item) = items.next().await {
            sum += item.map_err(|error| Status::internal(format!("{error:?}")))?;
        }
        Ok(sum)
    }

    #[packet]
    fn ask(&self, ask: Ask) -> u64 {
        ask.0
    }
}

/// A server, a client that serves the same, and what runs on either.
struct Ends {
    server: ServerHandle,
    client: Session,
    game: Game,
}

async fn ends(sealing: Sealing, capacity: usize) -> Ends {
    let identity = Identity::generate().unwrap();
    let key = identity.public_key();
    let game = Game::default();
    let server = Server::builder().identity(identity).sealing(sealing).no_listener();
    let server = server.controller(game.clone()).build().await.unwrap().handle();
    let (ours, theirs) = memory::pair(capacity);
    server.serve_link(theirs);
    let client = Client::builder("memory").server_key(key).sealing(sealing).controller(game.clone());
    let client = client.connect_over(ours).await.unwrap();
    assert_eq!(client.connection().sealing(), sealing);
    Ends { server, client, game }
}

const WAYS: [(Sealing, usize); 4] =
    [(Sealing::All, 100), (Sealing::All, 1 << 16), (Sealing::Marked, 100), (Sealing::Marked, 1 << 16)];

#[tokio::test(start_paused = true)]
async fn sealed_streams_come_whole_in_both_directions() {
    for (sealing, capacity) in WAYS {
        let Ends { client, game, .. } = ends(sealing, capacity).await;
        let mut open = client.stream(Open { to: 20_000, fail: u64::MAX }).await.unwrap();
        let mut marked = client.stream(Marked { to: 20_000, fail: u64::MAX }).await.unwrap();
        for n in 0..20_000 {
            assert_eq!(soon(open.next()).await, Some(Ok(n)));
            assert_eq!(soon(marked.next()).await, Some(Ok(n)));
        }
        assert_eq!((soon(open.next()).await, soon(marked.next()).await), (None, None));

        // Chunks that fit a frame, and some that do not.
        let mut open = client.upload(OpenSum { limit: u64::MAX }).await.unwrap();
        let mut marked = client.upload(MarkedSum { limit: u64::MAX }).await.unwrap();
        let mut sent = 0;
        for len in [0, 1, 1_000, 50_000, 16_383, 16_384, 3] {
            soon(open.send(&vec![1; len])).await.unwrap();
            soon(marked.send(&vec![1; len])).await.unwrap();
            sent += len as u64;
        }
        assert_eq!(soon(open.finish()).await, Ok(sent));
        assert_eq!(soon(marked.finish()).await, Ok(sent));

        let (mut open, mut open_back) = client.duplex(OpenEcho).await.unwrap();
        let (mut marked, mut marked_back) = client.duplex(MarkedEcho).await.unwrap();
        for n in 0..50 {
            let line = "x".repeat(n * 700);
            soon(open.send(&line)).await.unwrap();
            soon(marked.send(&line)).await.unwrap();
            assert_eq!(soon(marked_back.next()).await, Some(Ok(line.clone())));
            assert_eq!(soon(open_back.next()).await, Some(Ok(line)));
        }
        open.finish().unwrap();
        marked.finish().unwrap();
        assert_eq!((soon(open_back.next()).await, soon(marked_back.next()).await), (None, None));

        for marked in [true, false] {
            let sum = client.request(Mine { marked, to: 5_000 }).into_future();
            assert_eq!(soon(sum).await, Ok(4_999 * 5_000 / 2));
        }
        game.live.is(0).await;
        assert_eq!(client.connection().calls_in_flight(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn sealed_streams_end_with_the_errors_of_their_packets() {
    for (sealing, capacity) in WAYS {
        let Ends { client, .. } = ends(sealing, capacity).await;
        let mut items = client.stream(Marked { to: 9, fail: 2 }).await.unwrap();
        for n in 0..2 {
            assert_eq!(soon(items.next()).await, Some(Ok(n)));
        }
        assert_eq!(soon(items.next()).await, Some(Err(StreamError::Application(Fault::TooMany(2)))));
        let mut upload = client.upload(MarkedSum { limit: 10 }).await.unwrap();
        soon(upload.send(&vec![1; 11])).await.unwrap();
        assert_eq!(soon(upload.finish()).await, Err(RequestError::Application(Fault::TooMany(11))));
        let upload = client.upload(OpenSum { limit: 10 }).await.unwrap();
        let failed = soon(upload.fail(&Status::new(Code::DataLoss, "disk"))).await;
        assert!(matches!(&failed, Err(RequestError::Status(s)) if s.code == Code::DataLoss), "{failed:?}");
        assert_eq!(soon(client.request(Ask(1)).into_future()).await, Ok(1));
    }
}

#[tokio::test(start_paused = true)]
async fn sealed_streams_that_are_dropped_stop_on_the_other_side() {
    for (sealing, capacity) in WAYS {
        let Ends { client, game, .. } = ends(sealing, capacity).await;
        let started = Instant::now();
        let mut open = client.stream(Open { to: u64::MAX, fail: u64::MAX }).await.unwrap();
        let mut marked = client.stream(Marked { to: u64::MAX, fail: u64::MAX }).await.unwrap();
        let mut upload = client.upload(MarkedSum { limit: u64::MAX }).await.unwrap();
        soon(upload.send(&vec![1; 100_000])).await.unwrap();
        let (lines, mut back) = client.duplex(MarkedEcho).await.unwrap();
        assert_eq!((soon(open.next()).await, soon(marked.next()).await), (Some(Ok(0)), Some(Ok(0))));
        game.live.is(4).await;
        drop((open, marked, upload));
        // Without its upload the echo has no more to say.
        drop(lines);
        assert_eq!(soon(back.next()).await, None);
        let (mut lines, back) = client.duplex(OpenEcho).await.unwrap();
        drop(back);
        assert_eq!(soon(lines.send(&String::new())).await, Err(SendError::Stopped));
        game.live.is(0).await;
        until("the calls are over", || client.connection().calls_in_flight() == 0).await;
        assert_eq!(started.elapsed(), Duration::ZERO);
        assert_eq!(soon(client.request(Ask(1)).into_future()).await, Ok(1));
    }
}

#[tokio::test(start_paused = true)]
async fn sealed_streams_keep_to_their_deadlines() {
    for (sealing, capacity) in WAYS {
        let Ends { client, game, .. } = ends(sealing, capacity).await;
        let started = Instant::now();
        let five = Duration::from_secs(5);
        let (_lines, mut back) = client.duplex(MarkedEcho).timeout(five).await.unwrap();
        let mut upload = client.upload(MarkedSum { limit: u64::MAX }).timeout(five).await.unwrap();
        soon(upload.send(&vec![1; 10])).await.unwrap();
        game.live.is(2).await;
        assert_eq!(soon(back.next()).await, Some(Err(StreamError::Timeout)));
        assert_eq!(soon(upload.finish()).await, Err(RequestError::Timeout));
        assert_eq!(started.elapsed().as_secs(), 5);
        game.live.is(0).await;
    }
}

#[tokio::test(start_paused = true)]
async fn sealed_streams_end_with_their_connection() {
    for (sealing, capacity) in WAYS {
        for server_ends in [true, false] {
            let Ends { server, client, game } = ends(sealing, capacity).await;
            let mut marked = client.stream(Marked { to: u64::MAX, fail: u64::MAX }).await.unwrap();
            let (mut lines, mut back) = client.duplex(OpenEcho).await.unwrap();
            let mut upload = client.upload(MarkedSum { limit: u64::MAX }).await.unwrap();
            soon(upload.send(&vec![1; 10])).await.unwrap();
            assert_eq!(soon(marked.next()).await, Some(Ok(0)));
            game.live.is(3).await;
            match server_ends {
                true => server.connections().remove(0).abort(),
                false => client.connection().abort(),
            }
            game.live.is(0).await;
            assert!(matches!(soon(back.next()).await, Some(Err(StreamError::Disconnected(_)))));
            assert!(matches!(soon(lines.send(&String::new())).await, Err(SendError::Closed(_))));
            let lost = soon(upload.finish()).await;
            assert!(matches!(lost, Err(RequestError::Disconnected { .. })), "{lost:?}");
            let end = loop {
                match soon(marked.next()).await {
                    Some(Ok(_)) => {}
                    end => break end,
                }
            };
            assert!(matches!(end, Some(Err(StreamError::Disconnected(_)))));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_marked_stream_is_not_opened_where_nothing_is_sealed() {
    let both = support::Both::with(Game::default(), Options::default()).await;
    let client = both.client().await;
    let refused = client.stream(Marked { to: 1, fail: 2 }).await.unwrap_err();
    assert!(matches!(refused, RequestError::EncryptionRequired));
    let refused = client.upload(MarkedSum { limit: 1 }).await.unwrap_err();
    assert!(matches!(refused, RequestError::EncryptionRequired));
    assert!(matches!(client.duplex(MarkedEcho).await, Err(RequestError::EncryptionRequired)));
    assert_eq!(soon(client.request(Ask(1)).into_future()).await, Ok(1));
}
