//! A session that goes on where it was, with a server that keeps it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{
    future::IntoFuture,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

use nalix_client::{
    CloseCode, CloseReason, Context, Incoming, Offline, Options, ReconnectOptions, RequestError, SendError,
    SessionEvent, SessionState, WhileOffline, packet, packet_controller, stream,
};
use support::{Keeper, event, soon, until};
use tokio::{
    sync::Semaphore,
    task::JoinSet,
    time::{Instant, sleep},
};

/// Counts up by one, and is not to be run twice.
#[packet(opcode = 0x1001, reply = u32)]
struct Next;

/// As that, and waits for a permit first.
#[packet(opcode = 0x1002, reply = u32)]
struct Slow;

#[packet(opcode = 0x1003, reply = u32, idempotent)]
struct Get;

#[packet(opcode = 0x1004, stream = u32)]
struct Watch {
    count: u32,
}

#[packet(opcode = 0x1005, upload = u32, reply = Vec<u32>)]
struct Store;

/// Makes the server push so many numbers.
#[packet(opcode = 0x1006, reply = ())]
struct Push {
    count: u32,
}

#[packet(opcode = 0x3001)]
struct Number {
    n: u32,
}

#[derive(Clone)]
struct Lab {
    count: Arc<AtomicU32>,
    permits: Arc<Semaphore>,
    running: Arc<AtomicU32>,
    noted: Arc<Mutex<Vec<u32>>>,
}

impl Lab {
    fn new() -> Self {
        Self {
            count: Arc::default(),
            permits: Arc::new(Semaphore::new(0)),
            running: Arc::default(),
            noted: Arc::default(),
        }
    }
}

#[packet_controller]
impl Lab {
    #[packet]
    fn next(&self, _: Next) -> u32 {
        self.count.fetch_add(1, SeqCst) + 1
    }

    #[packet(concurrent)]
    async fn slow(&self, _: Slow) -> u32 {
        self.running.fetch_add(1, SeqCst);
        self.permits.acquire().await.unwrap().forget();
        self.count.fetch_add(1, SeqCst) + 1
    }

    #[packet(concurrent)]
    async fn get(&self, _: Get) -> u32 {
        self.running.fetch_add(1, SeqCst);
        self.permits.acquire().await.unwrap().forget();
        self.count.load(SeqCst)
    }

    #[packet]
    fn watch(&self, watch: Watch) -> impl nalix_client::Stream<Item = u32> + use<> {
        stream::iter(0..watch.count)
    }

    #[packet(concurrent)]
    async fn store(&self, _: Store, mut chunks: Incoming<u32>) -> Vec<u32> {
        let mut stored = Vec::new();
        while let Some(Ok(n)) = chunks.next().await {
            stored.push(n);
        }
        stored
    }

    #[packet(concurrent)]
    async fn push(&self, ctx: &Context, push: Push) {
        for n in 0..push.count {
            ctx.connection().send(&Number { n }).await.unwrap();
            tokio::task::yield_now().await;
        }
    }

    #[packet]
    fn noted(&self, number: Number) {
        self.noted.lock().unwrap().push(number.n);
    }
}

fn keeper(lab: &Lab) -> Keeper {
    Keeper::new(lab.clone(), Options::default().keep_alive(None))
}

fn quick() -> ReconnectOptions {
    ReconnectOptions::default().max_delay(Duration::from_millis(200))
}

/// Back at once, so that a test sees many cuts.
fn at_once() -> ReconnectOptions {
    let ms = Duration::from_millis(1);
    ReconnectOptions::default().first_delay(ms).max_delay(ms).stable_after(Duration::ZERO)
}

#[tokio::test(start_paused = true)]
async fn nothing_is_lost_and_nothing_is_done_twice_however_often_it_is_cut() {
    let lab = Lab::new();
    let keeper = keeper(&lab);
    let session = keeper.builder().reconnect(at_once()).connect().await.unwrap();
    let id = session.connection().id();
    let cuts = tokio::spawn({
        let keeper = keeper.clone();
        async move {
            for n in 0..200 {
                sleep(Duration::from_micros(100 + 137 * n % 5_000)).await;
                keeper.cut();
            }
        }
    });
    let mut told = Vec::new();
    while !cuts.is_finished() {
        let mut calls = JoinSet::new();
        for _ in 0..10 {
            calls.spawn(session.request(Next).into_future());
        }
        session.send(&Number { n: told.len() as u32 }).await.unwrap();
        for _ in 0..10 {
            told.push(soon(calls.join_next()).await.unwrap().unwrap().unwrap());
        }
        sleep(Duration::from_micros(500)).await;
    }
    told.sort_unstable();
    assert_eq!(told, (1..=told.len() as u32).collect::<Vec<_>>());
    assert_eq!(lab.count.load(SeqCst), told.len() as u32);
    let rounds: Vec<_> = (0..told.len() as u32 / 10).map(|round| round * 10).collect();
    until("all that was sent has arrived", || lab.noted.lock().unwrap().len() == rounds.len()).await;
    assert_eq!(*lab.noted.lock().unwrap(), rounds, "once, and in order");
    assert_eq!((session.connection().id(), keeper.opened.load(SeqCst)), (id, 1));
    assert!(keeper.gone_on.load(SeqCst) > 50, "{}", keeper.gone_on.load(SeqCst));
}

#[tokio::test(start_paused = true)]
async fn streams_uploads_and_pushes_go_on_over_cuts() {
    let lab = Lab::new();
    let keeper = keeper(&lab);
    let session = keeper.builder().reconnect(at_once()).connect().await.unwrap();
    let mut numbers = session.subscribe_with::<Number>(nalix_client::Queue::drop_newest(100_000));
    let cutter = tokio::spawn({
        let keeper = keeper.clone();
        async move {
            loop {
                sleep(Duration::from_millis(3)).await;
                keeper.cut();
            }
        }
    });
    let stream = async {
        let mut items = session.stream(Watch { count: 20_000 }).await.unwrap();
        for n in 0..20_000 {
            assert_eq!(items.next().await.unwrap(), Ok(n));
            if n % 100 == 0 {
                sleep(Duration::from_micros(500)).await;
            }
        }
        assert!(items.next().await.is_none());
    };
    let upload = async {
        let mut upload = session.upload(Store).await.unwrap();
        for n in 0..5_000 {
            upload.send(&n).await.unwrap();
            if n % 50 == 0 {
                sleep(Duration::from_micros(500)).await;
            }
        }
        assert_eq!(upload.finish().await.unwrap(), (0..5_000).collect::<Vec<_>>());
    };
    let pushes = async {
        session.request(Push { count: 5_000 }).await.unwrap();
        for n in 0..5_000 {
            assert_eq!(numbers.next().await.unwrap().unwrap().n, n);
        }
    };
    soon(async { tokio::join!(stream, upload, pushes) }).await;
    cutter.abort();
    assert_eq!(keeper.opened.load(SeqCst), 1);
    assert!(keeper.gone_on.load(SeqCst) > 10, "{}", keeper.gone_on.load(SeqCst));
}

/// In real time, on two threads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_on_its_way_in_both_directions_when_a_link_is_cut_comes_again() {
    let lab = Lab::new();
    let keeper = keeper(&lab);
    let session = keeper.builder().reconnect(at_once()).connect().await.unwrap();
    let cutter = tokio::spawn({
        let keeper = keeper.clone();
        async move {
            for n in 0..150 {
                sleep(Duration::from_micros(1_000 + 977 * n % 7_000)).await;
                keeper.cut();
            }
        }
    });
    let (mut calls, mut items) = (0, 0);
    while !cutter.is_finished() {
        let stream = async {
            let mut stream = session.stream(Watch { count: 20_000 }).await.unwrap();
            let mut expected = 0;
            while let Some(n) = stream.next().await {
                assert_eq!(n, Ok(expected));
                expected += 1;
            }
            expected
        };
        let call = async {
            let mut sum = 0;
            for _ in 0..100 {
                let number = Number { n: calls + sum };
                session.send(&number).await.unwrap();
                sum += u32::from(session.request(Next).await.is_ok());
            }
            sum
        };
        let (read, called) =
            tokio::time::timeout(Duration::from_secs(60), async { tokio::join!(stream, call) })
                .await
                .expect("this hangs");
        (items, calls) = (items + read, calls + called);
        assert_eq!((read, called), (20_000, 100));
    }
    assert_eq!((lab.count.load(SeqCst), items % 20_000), (calls, 0));
    assert_eq!(*lab.noted.lock().unwrap(), (0..calls).collect::<Vec<_>>());
    assert_eq!(keeper.opened.load(SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_in_flight_goes_on_and_its_handler_is_the_same() {
    let lab = Lab::new();
    let keeper = keeper(&lab);
    let session = keeper.builder().connect().await.unwrap();
    let mut events = session.events();
    let slow = tokio::spawn(session.request(Slow).into_future());
    until("it runs", || lab.running.load(SeqCst) == 1).await;
    keeper.set_away(true);
    keeper.cut();
    assert!(matches!(events.next().await, Some(SessionEvent::Lost(_))));
    event(&mut events, |event| matches!(event, SessionEvent::Failed { attempt: 4, .. })).await;
    until("it waits", || matches!(session.state(), SessionState::Reconnecting { attempt: 5, .. })).await;
    // The answer is made while nobody can hear it.
    lab.permits.add_permits(1);
    until("it has been answered", || lab.count.load(SeqCst) == 1).await;
    keeper.set_away(false);
    event(&mut events, |event| matches!(event, SessionEvent::Resumed)).await;
    assert_eq!(session.state(), SessionState::Connected);
    assert_eq!(soon(slow).await.unwrap(), Ok(1));
    assert_eq!(lab.running.load(SeqCst), 1);
}

/// Though the connection lives on without a link, and would take them into its outbox.
#[tokio::test(start_paused = true)]
async fn calls_made_meanwhile_wait_where_all_others_wait() {
    let lab = Lab::new();
    let keeper = keeper(&lab);
    let session = keeper.builder().reconnect(quick().offline_calls(3)).connect().await.unwrap();
    let mut events = session.events();
    keeper.set_away(true);
    keeper.cut();
    event(&mut events, |event| matches!(event, SessionEvent::Failed { .. })).await;
    let fail = WhileOffline::Fail;
    let offline = RequestError::Offline(Offline::NotWaiting);
    assert_eq!(session.request(Next).while_offline(fail).await, Err(offline.clone()));
    assert_eq!(session.stream(Watch { count: 1 }).while_offline(fail).await.unwrap_err(), offline);
    assert_eq!(session.try_send(&Number { n: 1 }), Err(SendError::Offline(Offline::NotWaiting)));
    let waiting: Vec<_> = (0..3).map(|_| tokio::spawn(session.request(Next).into_future())).collect();
    until("three wait", || session.waiting() == 3).await;
    assert_eq!(session.request(Next).await, Err(RequestError::Offline(Offline::Full)));
    assert_eq!(session.connection().calls_in_flight(), 0);
    keeper.set_away(false);
    for (call, n) in waiting.into_iter().zip(1..) {
        assert_eq!(soon(call).await.unwrap(), Ok(n));
    }
    assert_eq!((keeper.opened.load(SeqCst), keeper.gone_on.load(SeqCst)), (1, 1));
}

/// The session is not taken for offline by calls that were made while it was.
#[tokio::test(start_paused = true)]
async fn calls_that_were_made_without_a_link_and_are_awaited_with_one_leave_the_session_online() {
    let lab = Lab::new();
    let keeper = keeper(&lab);
    let session = keeper.builder().reconnect(quick()).connect().await.unwrap();
    let mut events = session.events();
    keeper.set_away(true);
    keeper.cut();
    event(&mut events, |event| matches!(event, SessionEvent::Failed { .. })).await;
    let request = session.request(Next).into_future();
    let stream = session.stream(Watch { count: 1 }).into_future();
    let number = Number { n: 1 };
    let send = session.send(&number);
    keeper.set_away(false);
    event(&mut events, |event| matches!(event, SessionEvent::Resumed)).await;
    let before = Instant::now();
    assert_eq!(soon(request).await, Ok(1));
    assert_eq!(soon(session.request(Next)).await, Ok(2));
    drop(soon(stream).await.unwrap());
    assert_eq!(soon(session.request(Next)).await, Ok(3));
    soon(send).await.unwrap();
    session.try_send(&number).unwrap();
    assert_eq!(soon(session.request(Next).while_offline(WhileOffline::Fail)).await, Ok(4));
    assert_eq!(before.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_has_forgotten_the_session_opens_a_fresh_one_and_says_so() {
    let lab = Lab::new();
    let keeper = keeper(&lab);
    let session = keeper.builder().reconnect(quick()).connect().await.unwrap();
    let mut events = session.events();
    let mut numbers = session.subscribe::<Number>();
    let slow = tokio::spawn(session.request(Slow).into_future());
    let get = tokio::spawn(session.request(Get).into_future());
    until("both run", || lab.running.load(SeqCst) == 2).await;
    keeper.forget();
    let back =
        event(&mut events, |event| matches!(event, SessionEvent::Resumed | SessionEvent::Fresh { .. })).await;
    assert_eq!(back, SessionEvent::Fresh { lost: 2 });
    let lost = soon(slow).await.unwrap().unwrap_err();
    let RequestError::Disconnected { maybe_executed: true, reason } = lost else { panic!("{lost}") };
    assert_eq!(reason.code, CloseCode::Lost);
    until("the other runs again", || lab.running.load(SeqCst) == 3).await;
    lab.permits.add_permits(1);
    assert_eq!(soon(get).await.unwrap(), Ok(0));
    soon(session.request(Push { count: 1 })).await.unwrap();
    assert_eq!(soon(numbers.next()).await.unwrap().unwrap().n, 0);
    assert_eq!((keeper.opened.load(SeqCst), keeper.gone_on.load(SeqCst)), (2, 0));
}

/// They are in the outbox when the link is found broken, so they cannot have run.
#[tokio::test(start_paused = true)]
async fn calls_that_were_never_written_run_once_on_the_fresh_session() {
    let lab = Lab::new();
    let keeper = keeper(&lab);
    let session = keeper.builder().reconnect(quick()).connect().await.unwrap();
    let mut events = session.events();
    let slow = tokio::spawn(session.request(Slow).into_future());
    until("one runs", || lab.running.load(SeqCst) == 1).await;
    keeper.forget();
    // Nobody has seen yet that the link is gone.
    assert_eq!(session.state(), SessionState::Connected);
    let short = session.request(Next).timeout(Duration::from_millis(1));
    let (a, b, c, short) =
        tokio::join!(session.request(Next), session.request(Next), session.request(Next), short);
    let mut counted = [a, b, c].map(Result::unwrap);
    counted.sort_unstable();
    assert_eq!(counted, [1, 2, 3]);
    assert_eq!(short, Err(RequestError::Timeout), "not beyond its own time");
    assert_eq!(lab.count.load(SeqCst), 3);
    // What has been written may have run, and is not made again.
    let lost = soon(slow).await.unwrap().unwrap_err();
    assert!(matches!(lost, RequestError::Disconnected { maybe_executed: true, .. }), "{lost}");
    let back = event(&mut events, |event| matches!(event, SessionEvent::Fresh { .. })).await;
    assert_eq!(back, SessionEvent::Fresh { lost: 4 });
    assert_eq!((keeper.opened.load(SeqCst), lab.running.load(SeqCst)), (2, 1));
}

/// The client's own time for it is over before it finds the server, which would still go on.
#[tokio::test(start_paused = true)]
async fn a_session_whose_time_is_over_ends_its_calls_and_begins_anew() {
    let lab = Lab::new();
    let keeper =
        Keeper::new(lab.clone(), Options::default().keep_alive(None).resume_grace(Duration::from_secs(20)));
    let session = keeper.builder().reconnect(quick()).connect().await.unwrap();
    let mut events = session.events();
    let slow = tokio::spawn(session.request(Slow).no_timeout().into_future());
    until("it runs", || lab.running.load(SeqCst) == 1).await;
    keeper.set_away(true);
    let began = Instant::now();
    keeper.cut();
    let lost = soon(slow).await.unwrap().unwrap_err();
    assert!(matches!(lost, RequestError::Disconnected { maybe_executed: true, .. }), "{lost}");
    assert_eq!(began.elapsed().as_secs(), 20);
    assert!(matches!(session.state(), SessionState::Reconnecting { .. }));
    keeper.set_away(false);
    event(&mut events, |event| matches!(event, SessionEvent::Fresh { .. })).await;
    assert_eq!(soon(session.request(Next)).await, Ok(1));
}

#[tokio::test(start_paused = true)]
async fn closing_a_session_that_waits_for_a_link_ends_it_and_its_calls_at_once() {
    for by_drop in [false, true] {
        let lab = Lab::new();
        let keeper = keeper(&lab);
        let session = keeper.builder().connect().await.unwrap();
        let mut events = session.events();
        let slow = tokio::spawn(session.request(Slow).into_future());
        until("it runs", || lab.running.load(SeqCst) == 1).await;
        keeper.set_away(true);
        keeper.cut();
        event(&mut events, |event| matches!(event, SessionEvent::Failed { .. })).await;
        let began = Instant::now();
        if by_drop {
            drop(session);
        } else {
            assert_eq!(soon(session.close()).await.code, CloseCode::Normal);
        }
        let ended = soon(slow).await.unwrap().unwrap_err();
        assert!(matches!(ended, RequestError::Disconnected { .. }), "{ended}");
        assert!(began.elapsed() < Duration::from_millis(1), "{:?}", began.elapsed());
        event(&mut events, |event| matches!(event, SessionEvent::Closed(_))).await;
    }
}

/// A server that ends the session for good says so over whatever link there is.
#[tokio::test(start_paused = true)]
async fn a_goodbye_that_was_said_while_there_was_no_link_is_heard_over_the_next() {
    let lab = Lab::new();
    let keeper = keeper(&lab);
    let session = keeper.builder().connect().await.unwrap();
    let mut events = session.events();
    keeper.set_away(true);
    keeper.cut();
    event(&mut events, |event| matches!(event, SessionEvent::Failed { .. })).await;
    keeper.connections()[0].close_with(CloseReason::new(CloseCode::Normal, "that is all"));
    keeper.set_away(false);
    // Either it is told, or it is given a fresh session: it does not wait for ever.
    tokio::select! {
        reason = session.closed() => assert_eq!(reason.code, CloseCode::Normal),
        answer = async { soon(session.request(Next)).await } => assert_eq!(answer, Ok(1)),
    }
}
