//! What waits while a session has no connection.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{
    future::IntoFuture,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

use nalix_client::{
    Incoming, Offline, ReconnectOptions, RequestError, SendError, Session, SessionEvent, WhileOffline,
    packet, packet_controller, stream,
};
use support::{Site, event, fresh, soon, until};
use tokio::{
    task::{JoinHandle, JoinSet},
    time::{Instant, sleep, timeout},
};

#[packet(opcode = 0x1001, reply = u32)]
struct Count {
    n: u32,
}

#[packet(opcode = 0x1002, reply = u64)]
struct Store {
    bytes: Vec<u8>,
}

#[packet(opcode = 0x1003, stream = u32)]
struct Watch {
    count: u32,
}

#[packet(opcode = 0x1004, upload = u32, reply = u32)]
struct Sum;

#[packet(opcode = 0x3001)]
struct Noted {
    n: u32,
}

#[packet(opcode = 0x3002)]
struct Tick {
    n: u32,
}

/// Counts what has been run.
#[derive(Clone, Default)]
struct Counter {
    ran: Arc<std::sync::Mutex<Vec<u32>>>,
    noted: Arc<AtomicU32>,
}

#[packet_controller]
impl Counter {
    #[packet]
    fn count(&self, count: Count) -> u32 {
        self.ran.lock().unwrap().push(count.n);
        count.n
    }

    #[packet]
    fn store(&self, store: Store) -> u64 {
        store.bytes.len() as u64
    }

    #[packet]
    fn watch(&self, watch: Watch) -> impl nalix_client::Stream<Item = u32> + use<> {
        stream::iter(0..watch.count)
    }

    #[packet(concurrent)]
    async fn sum(&self, _: Sum, mut chunks: Incoming<u32>) -> u32 {
        let mut sum = 0;
        while let Some(Ok(n)) = chunks.next().await {
            sum += n;
        }
        sum
    }

    #[packet]
    fn noted(&self, noted: Noted) {
        self.noted.fetch_add(noted.n, SeqCst);
    }
}

fn options() -> ReconnectOptions {
    ReconnectOptions::default()
}

/// A session that has just lost its server.
async fn offline(options: ReconnectOptions) -> (Site, Session) {
    let site = Site::with(Counter::default()).await;
    let session = site.connect_with(options).await;
    let mut events = session.events();
    site.kill();
    event(&mut events, |event| matches!(event, SessionEvent::Failed { .. })).await;
    (site, session)
}

fn call(session: &Session, n: u32) -> JoinHandle<Result<u32, RequestError>> {
    tokio::spawn(session.request(Count { n }).into_future())
}

#[tokio::test(start_paused = true)]
async fn calls_of_all_kinds_wait_for_a_connection_and_go_on_over_it() {
    let (site, session) = offline(options()).await;
    let waiting = {
        let session = session.clone();
        tokio::spawn(async move {
            let send = async { session.send(&Noted { n: 7 }).metadata("a", "b").await };
            let request = async { session.request(Count { n: 3 }).metadata("a", "b").response().await };
            let stream = async {
                let mut items = session.stream(Watch { count: 3 }).await.unwrap();
                let mut sum = 0;
                while let Some(item) = items.next().await {
                    sum += item.unwrap();
                }
                sum
            };
            let upload = async {
                let mut upload = session.upload(Sum).await.unwrap();
                upload.send(&4).await.unwrap();
                upload.send(&5).await.unwrap();
                upload.finish().await
            };
            tokio::join!(send, request, stream, upload)
        })
    };
    until("all wait", || session.waiting() == 4).await;
    assert_eq!(session.try_send(&Noted { n: 1 }), Err(SendError::Offline(Offline::NotWaiting)));
    let counter = Counter::default();
    site.start(counter.clone()).await;
    let (sent, answered, streamed, uploaded) = soon(waiting).await.unwrap();
    assert_eq!((sent, streamed, uploaded), (Ok(()), 3, Ok(9)));
    assert_eq!(*answered.unwrap(), 3);
    assert_eq!(session.waiting(), 0);
    session.try_send(&Noted { n: 1 }).unwrap();
    until("both have arrived", || counter.noted.load(SeqCst) == 8).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_not_to_wait_fails_at_once() {
    let (_site, session) = offline(options()).await;
    let fail = WhileOffline::Fail;
    let not = Offline::NotWaiting;
    let before = Instant::now();
    assert_eq!(session.request(Count { n: 1 }).while_offline(fail).await, Err(RequestError::Offline(not)));
    assert_eq!(
        session.request(Count { n: 1 }).while_offline(fail).retry(5).await,
        Err(RequestError::Offline(not))
    );
    assert_eq!(session.send(&Noted { n: 1 }).while_offline(fail).await, Err(SendError::Offline(not)));
    let refused = session.stream(Watch { count: 1 }).while_offline(fail).await.unwrap_err();
    assert_eq!(refused, RequestError::Offline(not));
    assert!(refused.is_retryable());
    assert_eq!((before.elapsed(), session.waiting()), (Duration::ZERO, 0));
    for options in [options().offline_calls(0), options().offline_age(Duration::ZERO)] {
        let (_site, session) = offline(options).await;
        assert_eq!(session.request(Count { n: 1 }).await, Err(RequestError::Offline(not)));
    }
}

#[tokio::test(start_paused = true)]
async fn no_more_calls_wait_than_may_and_one_that_goes_makes_room() {
    let (site, session) = offline(options().offline_calls(3)).await;
    let mut calls: Vec<_> = (0..3).map(|n| call(&session, n)).collect();
    until("three wait", || session.waiting() == 3).await;
    let full = RequestError::Offline(Offline::Full);
    assert_eq!(session.request(Count { n: 3 }).await, Err(full));
    assert_eq!(session.send(&Noted { n: 3 }).await, Err(SendError::Offline(Offline::Full)));
    // One is given up.
    calls.remove(0).abort();
    until("two wait", || session.waiting() == 2).await;
    calls.push(call(&session, 4));
    until("three wait again", || session.waiting() == 3).await;
    let counter = Counter::default();
    site.start(counter.clone()).await;
    for (call, n) in calls.into_iter().zip([1, 2, 4]) {
        assert_eq!(soon(call).await.unwrap(), Ok(n));
    }
    assert_eq!(*counter.ran.lock().unwrap(), [1, 2, 4], "in their order, and each once");
}

#[tokio::test(start_paused = true)]
async fn no_more_bytes_wait_than_may_but_one_that_is_alone_may_be_longer() {
    let (site, session) = offline(options().offline_bytes(1_000)).await;
    let store = |len: usize| tokio::spawn(session.request(Store { bytes: vec![0; len] }).into_future());
    let long = store(100_000);
    until("it waits", || session.waiting() == 1).await;
    let refused = RequestError::Offline(Offline::Full);
    assert_eq!(store(10).await.unwrap(), Err(refused.clone()));
    long.abort();
    until("nothing waits", || session.waiting() == 0).await;
    let calls = [store(400), store(400)];
    until("two wait", || session.waiting() == 2).await;
    assert_eq!(store(400).await.unwrap(), Err(refused));
    site.start(Counter::default()).await;
    for call in calls {
        assert_eq!(soon(call).await.unwrap(), Ok(400));
    }
}

#[tokio::test(start_paused = true)]
async fn what_has_waited_for_long_enough_says_so_and_so_does_a_deadline() {
    let (_site, session) = offline(options().offline_age(Duration::from_secs(5))).await;
    let before = Instant::now();
    assert_eq!(soon(session.request(Count { n: 1 })).await, Err(RequestError::Offline(Offline::Expired)));
    assert_eq!(before.elapsed(), Duration::from_secs(5));
    let hasty = session.request(Count { n: 1 }).timeout(Duration::from_secs(2));
    assert_eq!(soon(hasty).await, Err(RequestError::Timeout));
    assert_eq!(before.elapsed(), Duration::from_secs(7));
    assert_eq!(soon(session.send(&Noted { n: 1 })).await, Err(SendError::Offline(Offline::Expired)));
    let stream = session.stream(Watch { count: 1 }).timeout(Duration::from_secs(1));
    assert_eq!(soon(stream).await.unwrap_err(), RequestError::Timeout);
    assert_eq!(before.elapsed(), Duration::from_secs(13));
    assert_eq!(session.waiting(), 0);
}

/// What the wait for a connection has used up of a timeout does not begin anew with the connection.
#[tokio::test(start_paused = true)]
async fn the_time_a_call_has_waited_counts_for_its_timeout() {
    let (site, session) = offline(options().max_delay(Duration::from_millis(200))).await;
    let before = Instant::now();
    let call = tokio::spawn(session.request(Count { n: 1 }).timeout(Duration::from_secs(3)).into_future());
    sleep(Duration::from_secs(2)).await;
    site.set_silent(true);
    assert_eq!(soon(call).await.unwrap(), Err(RequestError::Timeout));
    assert_eq!(before.elapsed(), Duration::from_secs(3));
}

/// An outage of a minute, with a thousand calls in each second of it.
#[tokio::test(start_paused = true)]
async fn an_outage_with_calls_all_along_keeps_a_bounded_queue_and_runs_nothing_twice() {
    let options = options().max_delay(Duration::from_secs(1)).offline_calls(500);
    let site = Site::with(Counter::default()).await;
    let session = site.connect_with(options).await;
    let mut subscriptions: Vec<_> = (0..3).map(|_| session.subscribe::<Tick>()).collect();
    let mut events = session.events();
    site.kill();
    event(&mut events, |event| matches!(event, SessionEvent::Failed { .. })).await;

    let mut calls = JoinSet::new();
    let (mut ok, mut full, mut expired, mut most) = (Vec::new(), 0, 0, 0);
    for n in 0..60_000 {
        calls.spawn(session.request(Count { n }).timeout(Duration::from_secs(25)).into_future());
        sleep(Duration::from_millis(1)).await;
        most = most.max(session.waiting());
        while let Some(ended) = calls.try_join_next() {
            match ended.unwrap() {
                Err(RequestError::Offline(Offline::Full)) => full += 1,
                Err(RequestError::Timeout) => expired += 1,
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(most, 500);
    assert!(site.dialed().len() > 50, "{}", site.dialed().len());
    let counter = Counter::default();
    site.start(counter.clone()).await;
    while let Some(ended) = soon(calls.join_next()).await {
        match ended.unwrap() {
            Ok(n) => ok.push(n),
            Err(RequestError::Offline(Offline::Full)) => full += 1,
            Err(RequestError::Timeout) => expired += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(ok.len() + full + expired, 60_000, "every call has an end");
    assert!(ok.len() >= 400 && expired >= 1_000, "{} {full} {expired}", ok.len());
    let mut ran = counter.ran.lock().unwrap().clone();
    ran.sort_unstable();
    ok.sort_unstable();
    assert_eq!(ran, ok, "what was answered has run once, and nothing else has run");
    // One connection, and each subscription is there once.
    until("one connection is there", || site.server().connection_count() == 1).await;
    site.server().connections()[0].send(&Tick { n: 1 }).await.unwrap();
    for subscription in &mut subscriptions {
        assert_eq!(soon(subscription.next()).await.unwrap().unwrap().n, 1);
        assert!(timeout(Duration::from_millis(10), subscription.next()).await.is_err());
    }
}

/// Several who are told to hurry at the same moment make one connection.
#[tokio::test(start_paused = true)]
async fn two_who_want_to_reconnect_at_once_get_one_connection() {
    let (site, session) = offline(options()).await;
    let mut events = session.events();
    site.start(Counter::default()).await;
    let before = site.dialed().len();
    for _ in 0..10 {
        let session = session.clone();
        tokio::spawn(async move {
            session.network_changed();
            session.connected().await
        });
    }
    fresh(&mut events).await;
    sleep(Duration::from_secs(60)).await;
    assert_eq!((site.dialed().len(), site.server().connection_count()), (before + 1, 1));
}

#[tokio::test(start_paused = true)]
async fn calls_that_wait_end_with_the_session() {
    let (site, session) = offline(options()).await;
    let calls: Vec<_> = (0..10).map(|n| call(&session, n)).collect();
    until("they wait", || session.waiting() == 10).await;
    drop(session);
    for call in calls {
        assert!(matches!(soon(call).await.unwrap(), Err(RequestError::Closed(_))));
    }
    drop(site);
}
