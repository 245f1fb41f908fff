//! What has gone wrong with groups elsewhere: packets for those who have left, locks held while users' code runs, members
//! that a panic or a late end leaves behind.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{
    future::Future,
    hash::{Hash, Hasher},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::{Context as TaskContext, Poll, Waker},
    time::Duration,
};

use futures_core::Stream;
use nalix_server::{
    CloseCode, CloseReason, Code, Context, Group, HubExt, Join, Options, PresenceEvent, RequestError,
    ServerHandle, Status, Subscription, packet, packet_controller,
};
use support::{Inbox, Live, deaf, eventually, member, server, session, soon, until, within};
use tokio::sync::Semaphore;

#[packet(opcode = 0x3001)]
struct Number {
    n: u32,
}

#[packet(opcode = 0x3002)]
struct Text {
    n: u32,
    text: String,
}

#[packet(opcode = 0x2001, reply = u32)]
struct Double {
    n: u32,
}

#[packet(opcode = 0x1001, reply = Vec<u32>)]
struct AskAll {
    n: u32,
}

/// A client.
#[derive(Clone, Default)]
struct Ear {
    numbers: Inbox<u32>,
    texts: Inbox<u32>,
    asked: Arc<AtomicUsize>,
}

#[packet_controller]
impl Ear {
    #[packet]
    fn number(&self, number: Number) {
        self.numbers.put(number.n);
    }

    #[packet]
    fn text(&self, text: Text) {
        self.texts.put(text.n);
    }

    #[packet]
    fn double(&self, double: Double) -> u32 {
        self.asked.fetch_add(1, SeqCst);
        double.n * 2
    }
}

/// A server that lets its handlers ask groups, and notes the ends.
#[derive(Clone, Default)]
struct Rooms(Inbox<CloseCode>);

#[packet_controller]
impl Rooms {
    #[packet]
    async fn ask_all(&self, ctx: &Context, ask: AskAll) -> Result<Vec<u32>, Status> {
        let answers = ctx.group("all").ask(&Double { n: ask.n }, Duration::from_secs(5)).await;
        let answers = answers.map_err(|error| Status::internal(error.to_string()))?;
        Ok(answers.into_iter().filter_map(|answer| answer.result.ok()).collect())
    }

    #[disconnected]
    fn bye(&self, _: &Context, why: &CloseReason) {
        self.0.put(why.code);
    }
}

async fn rooms() -> ServerHandle {
    server(Rooms::default(), Options::default()).await
}

// What is sent, and to whom.

#[tokio::test]
async fn joining_sending_and_leaving_in_quick_succession_mixes_nothing_up() {
    let server = rooms().await;
    let group = server.hub().group("quick");
    let ear = Ear::default();
    let (_session, connection) = member(&server, ear.clone()).await;
    for n in 0..1_000 {
        assert_eq!(group.join(&connection), Join::Joined);
        assert_eq!(group.send(&Number { n }).queued, 1);
        assert!(group.leave(&connection));
        assert_eq!(group.send(&Number { n: n + 1_000_000 }).queued, 0);
    }
    ear.numbers.has(1_000).await;
    server.hub().send_all(&Number { n: 5 });
    ear.numbers.has(1_001).await;
    assert_eq!(ear.numbers.all(), (0..1_000).chain([5]).collect::<Vec<_>>());
}

/// Large packets keep their order among themselves, and so do small ones, at every member.
#[tokio::test]
async fn large_and_small_packets_mixed_are_each_in_order() {
    const EACH: u32 = 50;
    let server = rooms().await;
    let group = server.hub().group("mixed");
    let mut ears = Vec::new();
    for _ in 0..3 {
        let ear = Ear::default();
        let (session, connection) = member(&server, ear.clone()).await;
        group.join(&connection);
        ears.push((session, ear));
    }
    for n in 0..EACH {
        assert_eq!(group.send(&Text { n, text: "x".repeat(100_000) }).queued, 3);
        assert_eq!(group.send(&Number { n }).queued, 3);
    }
    for (_session, ear) in &ears {
        ear.texts.has(EACH as usize).await;
        assert_eq!(ear.texts.all(), (0..EACH).collect::<Vec<_>>());
        assert_eq!(ear.numbers.all(), (0..EACH).collect::<Vec<_>>());
    }
}

/// The question goes out when the future is first polled, and who has left by then is not asked.
#[tokio::test]
async fn who_leaves_before_a_question_is_sent_is_not_asked() {
    let server = rooms().await;
    let group = server.hub().group("asked");
    let (early, late) = (Ear::default(), Ear::default());
    let (_a, a) = member(&server, early.clone()).await;
    let (_b, b) = member(&server, late.clone()).await;
    group.join(&a);
    let ask = group.ask(&Double { n: 4 }, Duration::from_secs(5));
    group.leave(&a);
    group.join(&b);
    let answers = within("the answers", ask).await.unwrap();
    let ids: Vec<_> = answers.iter().map(|answer| answer.member.id()).collect();
    assert_eq!((ids, answers[0].result.clone().unwrap()), (vec![b.id()], 8));
    assert_eq!((early.asked.load(SeqCst), late.asked.load(SeqCst)), (0, 1));
}

// Ends of connections.

/// The old end is noticed long after the new connection has taken its place.
#[tokio::test]
async fn the_late_end_of_an_old_connection_leaves_the_new_one_in_its_groups() {
    let server = rooms().await;
    let hub = server.hub();
    let group = hub.group("users");
    for round in 0..20 {
        let (old_peer, old) = deaf(&server, 1 << 10).await;
        group.join_with(&old, round);
        let ear = Ear::default();
        let (new_session, new) = member(&server, ear.clone()).await;
        group.join_with(&new, round);
        let (_, mut presence) = group.watch(10);
        old.abort();
        eventually("it is noticed", || group.count() == 1).await;
        drop(old_peer);
        assert!(matches!(presence.try_next(), Some(PresenceEvent::Left(gone)) if gone.id() == old.id()));
        assert!(presence.try_next().is_none(), "one end is one event");
        assert!(group.contains(&new) && hub.contains(new.id()) && !hub.contains(old.id()));
        assert_eq!(group.join(&old), Join::Closed);
        assert_eq!(group.send(&Number { n: round }).queued, 1);
        ear.numbers.has(1).await;
        drop(new_session);
        eventually("it has gone, too", || group.is_empty()).await;
    }
}

#[tokio::test]
async fn members_that_are_cut_off_while_they_are_asked_fail_at_once() {
    let server = rooms().await;
    let group = server.hub().group("asked");
    let mut peers = Vec::new();
    for n in 0..50 {
        // Some have the question, and for some it is in a full link.
        let (peer, connection) = deaf(&server, if n % 2 == 0 { 8 } else { 1 << 16 }).await;
        group.join(&connection);
        peers.push((peer, connection));
    }
    let mut ask = pin!(group.ask(&Double { n: 1 }, Duration::from_secs(3_600)));
    assert!(ask.as_mut().poll(&mut TaskContext::from_waker(Waker::noop())).is_pending());
    peers.iter().for_each(|(_, connection)| connection.abort());
    let answers = within("the answers", ask).await.unwrap();
    assert_eq!(answers.len(), 50);
    for answer in answers {
        assert!(matches!(answer.result, Err(RequestError::Disconnected { .. })), "{answer:?}");
    }
    eventually("all are out", || group.is_empty()).await;
}

#[tokio::test]
async fn questions_that_are_given_up_over_and_over_leave_no_call_behind() {
    let server = rooms().await;
    let group = server.hub().group("asked");
    let ear = Ear::default();
    let (_session, connection) = member(&server, ear).await;
    group.join(&connection);
    for n in 0..20_000 {
        let mut ask = pin!(group.ask(&Double { n }, Duration::from_secs(5)));
        assert!(ask.as_mut().poll(&mut TaskContext::from_waker(Waker::noop())).is_pending());
        if n % 50 == 0 {
            tokio::task::yield_now().await;
        }
    }
    eventually("all calls are over", || connection.calls_in_flight() == 0).await;
    let answers = within("the answer", group.ask(&Double { n: 3 }, Duration::from_secs(5))).await.unwrap();
    assert_eq!(answers[0].result, Ok(6));
}

/// The answer of the caller itself does not wait behind the handler that waits for it.
#[tokio::test]
async fn a_handler_that_asks_its_own_caller_is_answered() {
    let server = rooms().await;
    let (mut sessions, ear) = (Vec::new(), Ear::default());
    for _ in 0..3 {
        let (session, connection) = member(&server, ear.clone()).await;
        server.hub().group("all").join(&connection);
        sessions.push(session);
    }
    let asked = sessions.iter().map(|session| session.request(AskAll { n: 3 }).into_future());
    for answers in asked.collect::<Vec<_>>() {
        assert_eq!(within("the answers", answers).await.unwrap(), [6, 6, 6]);
    }
}

#[tokio::test]
async fn a_server_that_shuts_down_leaves_no_group_behind() {
    let server = rooms().await;
    let hub = server.hub();
    let mut peers = Vec::new();
    for n in 0..20 {
        let (session, connection) = member(&server, Ear::default()).await;
        hub.group(n % 3).join(&connection);
        let (peer, connection) = deaf(&server, 8).await;
        hub.group(n % 3).join(&connection);
        peers.push((session, peer));
    }
    assert_eq!((hub.group_count(), hub.count()), (3, 40));
    hub.connections().iter().for_each(|connection| connection.drain(Duration::ZERO));
    eventually("those that read are gone", || hub.count() == 20).await;
    hub.connections().iter().for_each(|connection| connection.abort());
    eventually("and the others", || hub.count() == 0).await;
    assert_eq!(hub.group_count(), 0);
}

// Code of the user's that runs in the middle.

/// Looks at its group when it is dropped, which takes the group's lock.
struct Curious {
    group: Group,
    seen: Inbox<usize>,
}

impl Drop for Curious {
    fn drop(&mut self) {
        self.seen.put(self.group.count());
        self.group.send(&Number { n: 1 });
    }
}

/// Nothing of the user's is dropped while a lock is held, whatever takes the member out.
#[tokio::test]
async fn metadata_may_use_its_group_when_it_is_dropped() {
    let server = rooms().await;
    let hub = server.hub();
    let group = hub.group("curious");
    let seen = Inbox::default();
    let curious = || Curious { group: group.clone(), seen: seen.clone() };
    let (peer, connection) = deaf(&server, 1 << 16).await;
    let (_other, staying) = deaf(&server, 1 << 16).await;
    group.join(&staying);
    let work = async {
        group.join_with(&connection, curious());
        group.leave(&connection);
        group.join_with(&connection, curious());
        group.join_with(&connection, curious());
        group.set_metadata(&connection, curious());
        hub.leave_all(&connection);
        group.join_with(&connection, curious());
        let (_, missing) = group.watch(1);
        group.leave(&connection);
        group.join_with(&connection, curious());
        drop(missing);
        connection.abort();
        drop(peer);
        eventually("all are dropped", || seen.len() == 6).await;
        group.join_with(&connection, curious());
    };
    within("no lock is held", work).await;
    assert_eq!(seen.all(), [1, 2, 2, 1, 2, 1, 1], "members at the time");
}

/// Panics when it is dropped.
struct Bomb(Live);

impl Drop for Bomb {
    fn drop(&mut self) {
        drop(self.0.enter());
        panic!("a destructor of the user's");
    }
}

#[tokio::test]
async fn metadata_whose_destructor_panics_leaves_no_member_behind() {
    let rooms = Rooms::default();
    let server = server(rooms.clone(), Options::default()).await;
    let hub = server.hub();
    let dropped = Live::default();
    let ear = Ear::default();
    let (_session, other) = member(&server, ear.clone()).await;
    for round in 1..=5 {
        let (_peer, connection) = deaf(&server, 1 << 16).await;
        for n in 0..4 {
            hub.group(n).join_with(&connection, Bomb(dropped.clone()));
            hub.group(n).join(&other);
        }
        connection.abort();
        eventually("it is out of all", || hub.count() == 1).await;
        assert!(hub.groups_of(&connection).is_empty());
        assert_eq!((dropped.entered(), hub.group_count()), (4 * round, 4));
        assert_eq!(rooms.0.len(), round, "the hooks run all the same");
        assert_eq!(hub.group(2).send(&Number { n: 0 }).queued, 1);
        ear.numbers.has(round).await;
    }
}

#[tokio::test]
async fn a_predicate_that_panics_harms_nothing_that_comes_later() {
    let server = rooms().await;
    let group = server.hub().group("g");
    let ear = Ear::default();
    let mut sessions = Vec::new();
    for _ in 0..3 {
        let (session, connection) = member(&server, ear.clone()).await;
        group.join(&connection);
        sessions.push(session);
    }
    let mut asked = 0;
    let sent = catch_unwind(AssertUnwindSafe(|| {
        group.send_where(&Number { n: 1 }, |_| {
            asked += 1;
            assert!(asked < 2, "a predicate of the user's");
            true
        })
    }));
    assert!(sent.is_err());
    assert_eq!(group.send(&Number { n: 2 }).queued, 3);
    ear.numbers.has(4).await;
    let mut got = ear.numbers.all();
    got.sort_unstable();
    assert_eq!(got, [1, 2, 2, 2], "the first got it, and the others do not hear of it later");
}

/// Equal to none, and panics when it is asked.
#[derive(Clone)]
struct BadKey {
    hash: bool,
}

impl Hash for BadKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        assert!(!self.hash, "a hash of the user's");
        0.hash(state);
    }
}

impl PartialEq for BadKey {
    fn eq(&self, _: &Self) -> bool {
        panic!("a comparison of the user's");
    }
}

impl Eq for BadKey {}

#[tokio::test]
async fn a_key_that_panics_harms_no_other_group() {
    let hub = rooms().await.hub();
    let held: Vec<_> = (0..1_000_usize).map(|n| hub.group(n)).collect();
    assert!(catch_unwind(AssertUnwindSafe(|| hub.group(BadKey { hash: true }))).is_err());
    let first = hub.group(BadKey { hash: false });
    assert!(catch_unwind(AssertUnwindSafe(|| hub.group(BadKey { hash: false }))).is_err());
    assert_eq!(hub.group_count(), 1_001);
    (0..1_000).for_each(|n| assert_eq!(hub.group(n), held[n]));
    drop(held);
    assert_eq!(hub.group_count(), 1);
    drop(first);
    assert_eq!((hub.group_count(), hub.group("other").count()), (0, 0));
}

#[tokio::test]
async fn any_text_names_a_group() {
    let hub = rooms().await.hub();
    let texts = ["", "\0", "\u{fffd}", "\u{10ffff}", "a\0b", " ", "../..", "\u{202e}gnol"];
    let long = "x".repeat(1 << 20);
    let groups: Vec<_> =
        texts.iter().copied().chain([&*long]).map(|text| hub.group(text.to_owned())).collect();
    assert_eq!(hub.group_count(), groups.len());
    for (group, text) in groups.iter().zip(texts) {
        assert_eq!((group.text(), *group == hub.group(text)), (Some(text), true));
    }
}

#[tokio::test]
async fn ten_thousand_names_leave_nothing_behind() {
    let server = rooms().await;
    let hub = server.hub();
    let (_peer, connection) = deaf(&server, 1 << 10).await;
    for n in 0..10_000 {
        let group = hub.group(format!("name {n}"));
        assert_eq!((group.join(&connection), group.leave(&connection)), (Join::Joined, true));
    }
    assert_eq!((hub.group_count(), hub.groups_of(&connection).len()), (0, 0));
}

// Much at once.

/// One worker: a lock that is held where another task needs it stops everything.
#[tokio::test]
async fn a_thousand_connect_while_others_count_send_and_leave() {
    const ALL: usize = 1_000;
    let server = rooms().await;
    let hub = server.hub();
    let connecting = tokio::spawn({
        let server = server.clone();
        async move {
            let mut sessions = Vec::new();
            for _ in 0..ALL {
                sessions.push(session(&server).await);
            }
            sessions
        }
    });
    let mut rounds = 0;
    let busy = async {
        while !connecting.is_finished() {
            for connection in hub.connections().into_iter().rev().take(10) {
                let group = hub.group(connection.id().slot() % 7);
                if group.join(&connection) == Join::Already && connection.id().slot() % 3 == 0 {
                    group.leave(&connection);
                }
            }
            if rounds % 50 == 0 {
                assert!(hub.send_all(&Number { n: rounds }).queued <= hub.count());
            }
            assert!(hub.group_count() <= 7);
            rounds += 1;
            tokio::task::yield_now().await;
        }
    };
    soon(busy).await;
    let sessions = connecting.await.unwrap();
    eventually("all are there", || hub.count() == ALL).await;
    drop(sessions);
    eventually("all are gone", || hub.count() == 0).await;
    assert_eq!(hub.group_count(), 0);
}

/// Every call runs until the gate opens.
#[derive(Clone)]
struct Slow {
    gate: Arc<Semaphore>,
    running: Live,
}

#[packet_controller]
impl Slow {
    #[packet]
    async fn double(&self, double: Double) -> u32 {
        let _running = self.running.enter();
        self.gate.acquire().await.unwrap().forget();
        double.n * 2
    }
}

#[tokio::test]
async fn a_member_that_leaves_while_it_answers_is_still_heard() {
    let server = rooms().await;
    let group = server.hub().group("asked");
    let slow = Slow { gate: Arc::new(Semaphore::new(0)), running: Live::default() };
    let (_session, connection) = member(&server, slow.clone()).await;
    group.join(&connection);
    let ask = tokio::spawn(group.ask(&Double { n: 2 }, Duration::from_secs(100)));
    within("it is asked", slow.running.has_entered(1)).await;
    assert!(group.leave(&connection));
    assert_eq!(connection.close_reason().map(|reason| reason.code), None::<CloseCode>);
    slow.gate.add_permits(1);
    let answers = within("the answer", ask).await.unwrap().unwrap();
    assert_eq!(answers[0].result, Ok(4));
    assert!(answers[0].result.as_ref().map_err(RequestError::code) != Err(Some(Code::Cancelled)));
}

// Streams.

fn next_of<S: Stream + Unpin>(stream: &mut S) -> impl Future<Output = Option<S::Item>> + '_ {
    std::future::poll_fn(move |cx| Pin::new(&mut *stream).poll_next(cx))
}

#[tokio::test]
async fn presence_and_subscriptions_are_streams() {
    let server = rooms().await;
    let group = server.hub().group("watched");
    let (session, connection) = member(&server, Ear::default()).await;
    let (_, mut presence) = group.watch(2);
    let waiting = Pin::new(&mut presence).poll_next(&mut TaskContext::from_waker(Waker::noop()));
    assert!(matches!(waiting, Poll::Pending));
    let watching = tokio::spawn(async move {
        let mut seen = Vec::new();
        for _ in 0..2 {
            seen.push(next_of(&mut presence).await.unwrap());
        }
        (seen, presence)
    });
    tokio::task::yield_now().await;
    group.join(&connection);
    group.leave(&connection);
    let (seen, mut presence) = within("the watcher is woken", watching).await.unwrap();
    assert!(matches!(&seen[..], [PresenceEvent::Joined(_), PresenceEvent::Left(_)]), "{seen:?}");
    for _ in 0..3 {
        group.join(&connection);
        group.leave(&connection);
    }
    assert!(matches!(next_of(&mut presence).await, Some(PresenceEvent::Missed(4))));
    assert!(matches!(next_of(&mut presence).await, Some(PresenceEvent::Joined(_))));

    let mut numbers: Subscription<Number> = session.connection().subscribe();
    assert_eq!(server.hub().send_all(&Number { n: 9 }).queued, 1);
    assert_eq!(within("the number", next_of(&mut numbers)).await.unwrap().unwrap().n, 9);
    connection.close();
    assert!(within("the end", next_of(&mut numbers)).await.is_none());
    until("it is out", || group.is_empty()).await;
}
