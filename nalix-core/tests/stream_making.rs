//! Streams that are made with `nalix_core::stream`: what is asked for, and nothing before it is.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    cell::Cell,
    future::{Future, pending, poll_fn},
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use nalix_core::{
    Status, Stream,
    stream::{self, Closed, TrySendError},
};
use tokio::{sync::mpsc, task::yield_now, time::sleep};

async fn next<S: Stream>(stream: &mut Pin<&mut S>) -> Option<S::Item> {
    tokio::time::timeout(Duration::from_secs(60), poll_fn(|cx| stream.as_mut().poll_next(cx)))
        .await
        .expect("the stream hangs")
}

/// All items, and whether there are none behind the end.
async fn all<S: Stream>(stream: S) -> Vec<S::Item> {
    let mut stream = pin!(stream);
    let mut items = Vec::new();
    while let Some(item) = next(&mut stream).await {
        items.push(item);
    }
    assert!(next(&mut stream).await.is_none(), "an item behind the end");
    items
}

fn poll_once<S: Stream>(stream: Pin<&mut S>, waker: &Waker) -> Poll<Option<S::Item>> {
    stream.poll_next(&mut Context::from_waker(waker))
}

/// Counts how often it is woken.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Woken {
    fn new() -> (Arc<Self>, Waker) {
        let woken = Arc::new(Self::default());
        (Arc::clone(&woken), woken.into())
    }

    fn times(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// Tells when it is dropped.
struct Guard(Arc<AtomicUsize>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test]
async fn what_can_be_iterated_over_is_a_stream_of_the_same_items() {
    assert_eq!(all(stream::iter(vec![1, 2, 3])).await, [1, 2, 3]);
    assert_eq!(all(stream::iter([0_u8; 0])).await, []);
    let hint = stream::iter(0..7).size_hint();
    assert_eq!(hint, (7, Some(7)));
}

#[tokio::test]
async fn a_polled_function_makes_the_items() {
    let mut left = 3;
    let countdown = stream::poll_fn(move |_| {
        let item = (left > 0).then_some(left);
        left = left.max(1) - 1;
        Poll::Ready(item)
    });
    assert_eq!(all(countdown).await, [3, 2, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_state_is_unfolded_by_an_async_function_to_its_end() {
    let squares = stream::unfold(0_u64, async |n| {
        sleep(Duration::from_millis(n)).await;
        (n < 5).then_some((n * n, n + 1))
    });
    assert_eq!(all(squares).await, [0, 1, 4, 9, 16]);
}

#[tokio::test]
async fn an_error_is_the_last_item_of_what_is_unfolded() {
    let halves = stream::try_unfold(8_u32, async |n| match n {
        1 => Err("odd"),
        n => Ok(Some((n, n / 2))),
    });
    assert_eq!(all(halves).await, [Ok(8), Ok(4), Ok(2), Err("odd")]);
    let ended = stream::try_unfold(0, async |n| Ok::<_, Status>((n < 2).then_some((n, n + 1))));
    assert_eq!(all(ended).await, [Ok(0), Ok(1)]);
}

#[tokio::test(start_paused = true)]
async fn async_code_hands_out_items_and_then_the_stream_ends() {
    let items = stream::generate(async |mut items| {
        for n in 0..3 {
            items.send(n).await;
            sleep(Duration::from_secs(1)).await;
            yield_now().await;
        }
    });
    assert_eq!(all(items).await, [0, 1, 2]);
    assert_eq!(all(stream::generate::<u8, _, _>(async |_| {})).await, []);
}

#[tokio::test]
async fn a_question_mark_in_async_code_makes_the_error_the_last_item() {
    let items = stream::try_generate(async |mut items| {
        items.send(1).await;
        Err(Status::internal("no more"))?;
        items.send(2).await;
        Ok(())
    });
    assert_eq!(all(items).await, [Ok(1), Err(Status::internal("no more"))]);
    let items = stream::try_generate(async |mut items| {
        items.send(1).await;
        Ok::<_, Status>(())
    });
    assert_eq!(all(items).await, [Ok(1)]);
}

#[test]
fn nothing_is_made_before_it_is_asked_for() {
    let made = Cell::new(0);
    let made = &made;
    let (_, waker) = Woken::new();
    let mut unfolded = pin!(stream::unfold((), async |()| {
        made.set(made.get() + 1);
        Some(((), ()))
    }));
    for n in 0..3 {
        assert_eq!(made.get(), n);
        assert!(poll_once(unfolded.as_mut(), &waker).is_ready());
    }
    made.set(0);
    let mut generated = pin!(stream::generate(async |mut items| {
        loop {
            made.set(made.get() + 1);
            items.send(()).await;
        }
    }));
    for n in 0..3 {
        assert_eq!(made.get(), n);
        assert!(poll_once(generated.as_mut(), &waker).is_ready());
    }
}

#[test]
fn items_that_are_there_wake_nobody() {
    let (woken, waker) = Woken::new();
    let mut items = pin!(stream::generate(async |mut items| {
        for n in 0..100 {
            items.send(n).await;
        }
        pending::<()>().await;
    }));
    for n in 0..100 {
        assert_eq!(poll_once(items.as_mut(), &waker), Poll::Ready(Some(n)));
    }
    assert!(poll_once(items.as_mut(), &waker).is_pending());
    assert_eq!(woken.times(), 0);
}

#[test]
fn async_code_is_dropped_with_its_stream_and_at_its_end() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let make = || {
        let guard = Guard(Arc::clone(&dropped));
        stream::generate(async move |mut items| {
            let _guard = guard;
            items.send(()).await;
        })
    };
    let mut given_up = Box::pin(make());
    assert!(poll_once(given_up.as_mut(), Waker::noop()).is_ready());
    assert_eq!(dropped.load(Ordering::Relaxed), 0);
    drop(given_up);
    assert_eq!(dropped.load(Ordering::Relaxed), 1);
    let mut ended = Box::pin(make());
    assert!(poll_once(ended.as_mut(), Waker::noop()).is_ready());
    assert_eq!(poll_once(ended.as_mut(), Waker::noop()), Poll::Ready(None));
    assert_eq!(
        dropped.load(Ordering::Relaxed),
        2,
        "what it holds is let go at the end, though the stream is kept"
    );
}

#[tokio::test(start_paused = true)]
async fn an_item_that_is_given_up_before_it_is_taken_is_not_handed_out() {
    let mut items = pin!(stream::generate(async |mut items| {
        {
            // Polled once, so that it lies there, and dropped in the same turn.
            let mut first = pin!(items.send(1));
            let polled = poll_fn(|cx| Poll::Ready(first.as_mut().poll(cx))).await;
            assert!(polled.is_pending());
        }
        items.send(2).await;
        // One that is never polled.
        drop(items.send(3));
        items.send(4).await;
    }));
    assert_eq!(next(&mut items).await, Some(2));
    assert_eq!(next(&mut items).await, Some(4));
    assert_eq!(next(&mut items).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_leaked_item_is_handed_out_once_and_the_next_waits_for_that() {
    let items = stream::generate(async |mut items| {
        let mut first = items.send(1);
        assert!(poll_fn(|cx| Poll::Ready(Pin::new(&mut first).poll(cx))).await.is_pending());
        std::mem::forget(first);
        items.send(2).await;
    });
    assert_eq!(all(items).await, [1, 2]);
}

/// The task's waker is not the stream's: each must be woken for itself.
#[tokio::test(start_paused = true)]
async fn items_may_be_handed_out_by_a_task_that_the_code_waits_for() {
    let items = stream::generate(async |mut items| {
        let task = tokio::spawn(async move {
            for n in 0..100 {
                items.send(n).await;
                if n % 3 == 0 {
                    yield_now().await;
                }
            }
        });
        task.await.unwrap();
    });
    assert_eq!(all(items).await, (0..100).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_moves_between_tasks_goes_on() {
    let mut items = Box::pin(stream::generate(async |mut items| {
        for n in 0.. {
            items.send(n).await;
            sleep(Duration::from_millis(1)).await;
        }
    }));
    for n in 0..10 {
        let task = tokio::spawn(async move {
            let item = next(&mut items.as_mut()).await;
            (items, item)
        });
        let (back, item) = task.await.unwrap();
        assert_eq!(item, Some(n));
        items = back;
    }
}

#[tokio::test(start_paused = true)]
async fn a_channel_has_room_for_as_many_items_as_it_was_made_for() {
    for (asked, capacity) in [(0, 1), (1, 1), (3, 3)] {
        let (sender, items) = stream::channel(asked);
        for n in 0..capacity {
            sender.try_send(n).unwrap();
        }
        let full = sender.try_send(9).unwrap_err();
        assert!(full == TrySendError::Full(9) && full.is_retryable());
        assert_eq!(full.into_inner(), 9);
        let mut send = Box::pin(sender.send(capacity));
        assert!(poll_fn(|cx| Poll::Ready(send.as_mut().poll(cx))).await.is_pending());
        let mut items = pin!(items);
        assert_eq!(next(&mut items).await, Some(0));
        send.await.unwrap();
        drop(sender);
        for n in 1..=capacity {
            assert_eq!(next(&mut items).await, Some(n));
        }
        assert_eq!(next(&mut items).await, None, "all senders are gone");
    }
    // As much as there can be, and no panic.
    drop(stream::channel::<u8>(usize::MAX));
}

#[tokio::test(start_paused = true)]
async fn senders_learn_that_the_stream_has_been_dropped() {
    let (sender, items) = stream::channel(1);
    sender.send(1).await.unwrap();
    let waiting = tokio::spawn({
        let sender = sender.clone();
        async move { sender.send(2).await }
    });
    let watching = tokio::spawn({
        let sender = sender.clone();
        async move { sender.closed().await }
    });
    yield_now().await;
    assert!(!sender.is_closed() && !waiting.is_finished() && !watching.is_finished());
    drop(items);
    assert_eq!(waiting.await.unwrap(), Err(Closed(2)));
    watching.await.unwrap();
    assert!(sender.is_closed());
    assert_eq!(sender.send(3).await, Err(Closed(3)));
    let closed = sender.try_send(4).unwrap_err();
    assert!(closed == TrySendError::Closed(4) && !closed.is_retryable());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thread_feeds_a_channel() {
    let (sender, items) = stream::channel(2);
    let thread = std::thread::spawn(move || {
        for n in 0..100 {
            sender.blocking_send(n).unwrap();
        }
    });
    assert_eq!(all(items).await, (0..100).collect::<Vec<_>>());
    thread.join().unwrap();
}

#[tokio::test]
async fn a_receiver_of_tokios_is_a_stream() {
    let (sender, receiver) = mpsc::channel(2);
    sender.send(1).await.unwrap();
    drop(sender);
    assert_eq!(all(stream::Receiver::from(receiver)).await, [1]);
}

#[test]
fn errors_of_channels_can_be_handed_on_whatever_the_item_is() {
    fn is_error<E: std::error::Error + Send + Sync + 'static>(error: E) -> String {
        format!("{error} {error:?}")
    }
    #[derive(Clone, Copy)]
    struct Secret;
    assert_eq!(is_error(Closed(Secret)), "the stream has been dropped Closed { .. }");
    assert_eq!(is_error(TrySendError::Full(Secret)), "the stream has no room Full(..)");
}

#[test]
fn streams_can_be_sent_to_where_handlers_run() {
    fn is_send<S: Stream + Send + Unpin>(_: &S) {}
    is_send(&stream::iter([1]));
    is_send(&stream::poll_fn(|_| Poll::Ready(Some(1))));
    is_send(&stream::unfold(0, async |n| Some((n, n))));
    is_send(&stream::try_unfold(0, async |n| Ok::<_, Status>(Some((n, n)))));
    is_send(&stream::generate(async |mut items| items.send(1).await));
    is_send(&stream::try_generate(async |mut items| {
        items.send(1).await;
        sleep(Duration::ZERO).await;
        Ok::<_, Status>(())
    }));
    is_send(&stream::channel::<u8>(1).1);
}
