//! Handlers whose streams are made with `nalix_server::stream`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use nalix_server::{
    Code, Context, Failure, Incoming, Options, Status, Stream, StreamError, packet, packet_controller, stream,
};
use tokio::sync::Notify;

use support::{Both, Live, soon, until};

#[packet(opcode = 0x4201, stream = u64)]
struct Primes;

/// Numbers that another task counts up to.
#[packet(opcode = 0x4202, stream = u64)]
struct Fed {
    to: u64,
}

#[packet(opcode = 0x4203, stream = u64)]
struct Lent;

#[packet(opcode = 0x4204, stream = u64)]
struct Powers {
    of: u64,
}

/// Gives back the lines, and then their number.
#[packet(opcode = 0x4205, upload = String, stream = String)]
struct Echo;

#[derive(Clone, Default)]
struct Maker {
    live: Live,
    made: Arc<AtomicU64>,
    told: Arc<Notify>,
}

#[packet_controller]
impl Maker {
    #[packet]
    fn primes(&self, _: Primes) -> Result<impl Stream<Item = u64>, Status> {
        Ok(stream::iter([2, 3, 5, 7]))
    }

    #[packet]
    fn fed(&self, fed: Fed) -> impl Stream<Item = u64> {
        let (sender, items) = stream::channel(4);
        let this = self.clone();
        tokio::spawn(async move {
            let _guard = this.live.enter();
            for n in 0..fed.to {
                if sender.send(n).await.is_err() {
                    this.told.notify_one();
                    return;
                }
                this.made.fetch_add(1, Ordering::Relaxed);
            }
        });
        items
    }

    /// Borrows from the controller, and has a context.
    #[packet]
    fn lent<'a>(&'a self, ctx: &Context, _: Lent) -> impl Stream<Item = Result<u64, Status>> + use<'a> {
        let id = ctx.id().get();
        stream::try_generate(async move |mut items| {
            let _guard = self.live.enter();
            items.send(id).await;
            loop {
                self.told.notified().await;
                match self.made.fetch_add(1, Ordering::Relaxed) {
                    n if n < 3 => items.send(n).await,
                    n => Err(Status::new(Code::OutOfRange, n.to_string()))?,
                }
            }
        })
    }

    #[packet]
    async fn powers(&self, powers: Powers) -> impl Stream<Item = Result<u64, Status>> {
        stream::try_unfold(1, move |n: u64| async move {
            match n.checked_mul(powers.of) {
                Some(next) => Ok(Some((n, next))),
                None => Err(Status::new(Code::OutOfRange, "no more")),
            }
        })
    }

    #[packet]
    fn echo(
        &self,
        _: Echo,
        mut lines: Incoming<String>,
    ) -> impl Stream<Item = Result<String, Failure<Never>>> {
        stream::try_generate(async move |mut items| {
            let mut count = 0;
            while let Some(line) = lines.next().await {
                items.send(line.map_err(|error| Status::internal(error.to_string()))?).await;
                count += 1;
            }
            items.send(count.to_string()).await;
            Ok(())
        })
    }
}

type Never = std::convert::Infallible;

#[tokio::test(start_paused = true)]
async fn items_that_are_there_already_all_arrive() {
    let client = Both::new(Maker::default()).await.client().await;
    let mut primes = client.stream(Primes).await.unwrap();
    for prime in [2, 3, 5, 7] {
        assert_eq!(soon(primes.next()).await, Some(Ok(prime)));
    }
    assert_eq!(soon(primes.next()).await, None);
}

#[tokio::test(start_paused = true)]
async fn what_another_task_puts_into_a_channel_arrives_in_order() {
    for capacity in [7, 64 * 1024] {
        let mut both = Both::new(Maker::default()).await;
        both.capacity = capacity;
        let client = both.client().await;
        let mut fed = client.stream(Fed { to: 5_000 }).await.unwrap();
        for n in 0..5_000 {
            assert_eq!(soon(fed.next()).await, Some(Ok(n)));
        }
        assert_eq!(soon(fed.next()).await, None);
    }
}

#[tokio::test(start_paused = true)]
async fn the_producer_waits_for_a_slow_reader_and_learns_that_it_has_gone() {
    let maker = Maker::default();
    let mut both = Both::new(maker.clone()).await;
    both.client_options.stream_window = 100;
    let client = both.client().await;
    let mut fed = client.stream(Fed { to: u64::MAX }).await.unwrap();
    assert_eq!(soon(fed.next()).await, Some(Ok(0)));
    maker.live.is(1).await;
    // Nothing moves any more: each takes 9 bytes of the window.
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    let made = maker.made.load(Ordering::Relaxed);
    assert!((10..=30).contains(&made), "{made}");
    drop(fed);
    soon(maker.told.notified()).await;
    maker.live.is(0).await;
}

#[tokio::test(start_paused = true)]
async fn async_code_borrows_from_its_controller_waits_and_fails() {
    let maker = Maker::default();
    let both = Both::new(maker.clone()).await;
    let client = both.client().await;
    let mut lent = client.stream(Lent).await.unwrap();
    assert!(matches!(soon(lent.next()).await, Some(Ok(_))));
    for n in 0..3 {
        assert!(is_pending(lent.next()).await);
        maker.told.notify_one();
        assert_eq!(soon(lent.next()).await, Some(Ok(n)));
    }
    maker.told.notify_one();
    let failed = soon(lent.next()).await;
    assert!(
        matches!(&failed, Some(Err(StreamError::Status(s))) if s.code == Code::OutOfRange && s.message == "3"),
        "{failed:?}"
    );
    maker.live.is(0).await;
}

#[tokio::test(start_paused = true)]
async fn async_code_is_dropped_when_its_reader_stops() {
    let maker = Maker::default();
    let client = Both::new(maker.clone()).await.client().await;
    let mut lent = client.stream(Lent).await.unwrap();
    assert!(matches!(soon(lent.next()).await, Some(Ok(_))));
    maker.live.is(1).await;
    drop(lent);
    maker.live.is(0).await;
    until("the call is over", || client.connection().calls_in_flight() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_unfolded_arrives_and_then_its_error() {
    let client = Both::with(Maker::default(), Options::default()).await.client().await;
    let mut powers = client.stream(Powers { of: 1 << 30 }).await.unwrap();
    for n in 0..3 {
        let power = soon(powers.next()).await;
        let expected = 1_u64.checked_shl(30 * n).filter(|_| n < 2);
        assert_eq!(power.clone().and_then(Result::ok), expected, "{power:?}");
    }
    assert_eq!(soon(powers.next()).await, None);
}

#[tokio::test(start_paused = true)]
async fn async_code_reads_an_upload_and_answers_each_chunk() {
    let client = Both::new(Maker::default()).await.client().await;
    let (mut lines, mut echo) = client.duplex(Echo).await.unwrap();
    for line in ["a", "b"] {
        soon(lines.send(&line.to_owned())).await.unwrap();
        assert_eq!(soon(echo.next()).await, Some(Ok(line.to_owned())));
    }
    lines.finish().unwrap();
    assert_eq!(soon(echo.next()).await, Some(Ok("2".to_owned())));
    assert_eq!(soon(echo.next()).await, None);
}

/// Whether a future is not done, though everything has run that can.
async fn is_pending(work: impl Future) -> bool {
    let mut work = pin!(work);
    for _ in 0..100 {
        tokio::select! {
            biased;
            _ = &mut work => return false,
            () = tokio::task::yield_now() => {}
        }
    }
    true
}
