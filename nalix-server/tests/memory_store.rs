//! Sessions kept in the server's memory.

use std::{
    collections::HashMap,
    sync::{
        Arc, Barrier,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use nalix_server::store::{Key, MemoryStore, SessionId, SessionRecord, SessionStore, Taken, TicketId};

const HOUR: Duration = Duration::from_secs(3_600);

fn ticket(n: u64) -> TicketId {
    TicketId::from_bytes(std::array::from_fn(|i| n.to_le_bytes()[i % 8]))
}

fn session(n: u64) -> SessionId {
    SessionId::from_bytes(std::array::from_fn(|i| n.to_be_bytes()[i % 8]))
}

fn at(secs: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(secs)
}

/// A record of session `n` with a value that tells it from others.
fn record(n: u64, value: u64, expires: u64) -> SessionRecord {
    let mut record = SessionRecord::new(session(n), Key::new([n as u8; 32]), at(expires));
    record.data.insert("value", &value).unwrap();
    record
}

async fn value(store: &dyn SessionStore, n: u64) -> Option<u64> {
    let found = store.get(ticket(n)).await.unwrap()?;
    found.data.get("value").unwrap()
}

/// Takes a ticket as it is.
async fn take(store: &dyn SessionStore, ticket: TicketId, next: (TicketId, SessionRecord)) -> bool {
    let Some(seen) = store.get(ticket).await.unwrap() else { return false };
    store.take(ticket, &seen, next).await.unwrap() == Taken::Yes
}

/// A store whose clock stands at `clock` seconds.
fn store(capacity: usize) -> (Arc<MemoryStore>, Arc<AtomicU64>) {
    let clock = Arc::new(AtomicU64::new(0));
    let (wall, hand, start) = (Arc::clone(&clock), Arc::clone(&clock), Instant::now());
    let store = MemoryStore::with_capacity(capacity)
        .clock(move || at(wall.load(Ordering::Relaxed)))
        .monotonic_clock(move || start + Duration::from_secs(hand.load(Ordering::Relaxed)));
    (Arc::new(store), clock)
}

#[tokio::test]
async fn a_taken_ticket_is_gone_and_its_successor_there() {
    let (store, _) = store(10);
    store.put(ticket(1), record(1, 10, 100)).await.unwrap();
    assert_eq!(value(&*store, 1).await, Some(10));
    assert_eq!(value(&*store, 1).await, Some(10), "looking up changes nothing");
    assert!(take(&*store, ticket(1), (ticket(2), record(1, 20, 100))).await);
    assert_eq!((value(&*store, 1).await, value(&*store, 2).await), (None, Some(20)));
    assert!(!take(&*store, ticket(1), (ticket(3), record(1, 30, 100))).await);
    assert_eq!((value(&*store, 3).await, value(&*store, 2).await), (None, Some(20)));
    assert_eq!(store.len(), 1);
}

#[tokio::test]
async fn an_update_never_brings_a_ticket_back() {
    let (store, clock) = store(10);
    assert!(!store.update(ticket(1), record(1, 1, 100)).await.unwrap(), "never there");
    store.put(ticket(1), record(1, 1, 100)).await.unwrap();
    assert!(store.update(ticket(1), record(1, 2, 100)).await.unwrap());
    assert_eq!(value(&*store, 1).await, Some(2));
    assert!(take(&*store, ticket(1), (ticket(2), record(1, 3, 100))).await);
    assert!(!store.update(ticket(1), record(1, 4, 100)).await.unwrap(), "taken");
    assert_eq!(store.revoke(session(1), HOUR).await.unwrap(), 1);
    assert!(!store.update(ticket(2), record(1, 5, 100)).await.unwrap(), "revoked");
    store.put(ticket(3), record(3, 6, 50)).await.unwrap();
    clock.store(50, Ordering::Relaxed);
    assert!(!store.update(ticket(3), record(3, 7, 100)).await.unwrap(), "expired");
    assert!(store.is_empty());
}

#[tokio::test]
async fn an_expired_ticket_is_as_good_as_absent() {
    let (store, clock) = store(10);
    for n in 1..=4 {
        store.put(ticket(n), record(n, n, 100)).await.unwrap();
    }
    clock.store(99, Ordering::Relaxed);
    assert_eq!(value(&*store, 1).await, Some(1));
    clock.store(100, Ordering::Relaxed);
    assert_eq!(value(&*store, 1).await, None);
    assert!(!take(&*store, ticket(2), (ticket(12), record(2, 0, 200))).await);
    assert_eq!(store.revoke(session(3), HOUR).await.unwrap(), 0);
    assert_eq!(store.len(), 1, "what was asked for is removed");
    assert_eq!((store.remove_expired(), store.len()), (1, 0));
}

#[tokio::test]
async fn the_oldest_goes_when_it_is_full() {
    let (store, _) = store(3);
    for n in 1..=3 {
        store.put(ticket(n), record(n, n, 100)).await.unwrap();
    }
    // Renewed, so the second is the oldest now; reading and updating do not renew.
    assert!(take(&*store, ticket(1), (ticket(11), record(1, 11, 100))).await);
    assert!(store.update(ticket(2), record(2, 22, 100)).await.unwrap());
    assert_eq!(value(&*store, 2).await, Some(22));
    store.put(ticket(4), record(4, 4, 100)).await.unwrap();
    assert_eq!(value(&*store, 2).await, None);
    for (n, left) in [(11, 11), (3, 3), (4, 4)] {
        assert_eq!(value(&*store, n).await, Some(left));
    }
    assert_eq!(store.revoke(session(2), HOUR).await.unwrap(), 0);
    // Putting in under a name that is there takes no room from others.
    store.put(ticket(4), record(4, 44, 100)).await.unwrap();
    assert_eq!((value(&*store, 3).await, value(&*store, 4).await, store.len()), (Some(3), Some(44), 3));
}

#[tokio::test]
async fn expired_tickets_make_room_before_the_oldest() {
    let (store, clock) = store(3);
    store.put(ticket(1), record(1, 1, 1000)).await.unwrap();
    store.put(ticket(2), record(2, 2, 10)).await.unwrap();
    store.put(ticket(3), record(3, 3, 1000)).await.unwrap();
    clock.store(10, Ordering::Relaxed);
    store.put(ticket(4), record(4, 4, 1000)).await.unwrap();
    assert_eq!((value(&*store, 1).await, value(&*store, 2).await), (Some(1), None));
    assert_eq!(store.len(), 3);
}

#[tokio::test]
async fn memory_of_expired_tickets_comes_back_without_being_asked() {
    let (store, clock) = store(1_000_000);
    for n in 0..10_000 {
        clock.store(n, Ordering::Relaxed);
        store.put(ticket(n), record(n, n, n + 100)).await.unwrap();
        assert!(store.len() <= 100);
    }
}

#[tokio::test]
async fn none_and_one_and_any_number_are_capacities() {
    let (none, _) = store(0);
    none.put(ticket(1), record(1, 1, 100)).await.unwrap();
    assert_eq!((none.len(), value(&*none, 1).await), (0, None));
    assert!(!take(&*none, ticket(1), (ticket(2), record(1, 1, 100))).await);
    assert_eq!(none.revoke(session(1), HOUR).await.unwrap(), 0);

    let (one, _) = store(1);
    for n in 1..=100 {
        one.put(ticket(n), record(n, n, 100)).await.unwrap();
        assert!(take(&*one, ticket(n), (ticket(n + 1000), record(n, n, 100))).await);
        assert_eq!((one.len(), value(&*one, n + 1000).await), (1, Some(n)));
    }

    let (huge, _) = store(usize::MAX);
    for n in 0..1000 {
        huge.put(ticket(n), record(n, n, 100)).await.unwrap();
    }
    assert_eq!(huge.len(), 1000);
    assert_eq!(MemoryStore::new().capacity(), MemoryStore::DEFAULT_CAPACITY);
}

#[tokio::test]
async fn revoking_finds_all_tickets_of_a_session_and_no_others() {
    let (store, _) = store(100);
    for n in 0..30 {
        store.put(ticket(n), record(n % 3, n, 100)).await.unwrap();
    }
    // The first, the last and one in the middle leave for other reasons.
    assert!(take(&*store, ticket(0), (ticket(100), record(0, 0, 100))).await);
    assert!(take(&*store, ticket(27), (ticket(127), record(1, 0, 100))).await);
    store.put(ticket(15), record(2, 0, 100)).await.unwrap();
    assert_eq!(store.revoke(session(0), HOUR).await.unwrap(), 8);
    assert_eq!(store.revoke(session(0), HOUR).await.unwrap(), 0);
    assert_eq!(store.len(), 22);
    assert_eq!(store.revoke(session(1), HOUR).await.unwrap(), 11);
    assert_eq!(store.revoke(session(2), HOUR).await.unwrap(), 11);
    assert!(store.is_empty());
}

#[tokio::test]
async fn a_ticket_that_is_put_in_after_its_session_was_revoked_is_not_there() {
    let (store, clock) = store(10);
    // Nothing of it has come to the store yet.
    assert_eq!(store.revoke(session(1), Duration::from_secs(50)).await.unwrap(), 0);
    store.put(ticket(1), record(1, 1, 1_000)).await.unwrap();
    assert_eq!((value(&*store, 1).await, store.len()), (None, 0));
    store.put(ticket(2), record(2, 2, 1_000)).await.unwrap();
    assert_eq!(value(&*store, 2).await, Some(2), "another session");
    clock.store(49, Ordering::Relaxed);
    store.put(ticket(1), record(1, 1, 1_000)).await.unwrap();
    assert_eq!(value(&*store, 1).await, None);
    clock.store(50, Ordering::Relaxed);
    store.put(ticket(1), record(1, 1, 1_000)).await.unwrap();
    assert_eq!(value(&*store, 1).await, Some(1), "nothing of that time can come any more");
}

#[tokio::test]
async fn a_ticket_that_has_changed_since_it_was_seen_is_not_taken() {
    let (store, _) = store(10);
    store.put(ticket(1), record(1, 1, 100)).await.unwrap();
    let seen = store.get(ticket(1)).await.unwrap().unwrap();
    assert!(store.update(ticket(1), record(1, 2, 100)).await.unwrap());
    let next = || (ticket(2), record(1, 3, 100));
    let Taken::Changed(now) = store.take(ticket(1), &seen, next()).await.unwrap() else {
        panic!("it was taken")
    };
    assert_eq!(now, record(1, 2, 100));
    assert_eq!((value(&*store, 1).await, value(&*store, 2).await), (Some(2), None));
    assert_eq!(store.take(ticket(1), &now, next()).await.unwrap(), Taken::Yes);
    assert_eq!(store.take(ticket(1), &now, next()).await.unwrap(), Taken::No);
    assert_eq!((value(&*store, 1).await, value(&*store, 2).await), (None, Some(3)));
}

/// The system's clock is set, back and forth, while tickets are there; what counts is how much time has passed.
#[tokio::test]
async fn a_wall_clock_that_is_set_gives_no_ticket_a_longer_life() {
    const NOON: u64 = 1_800_000_000;
    for set in [0, NOON - 3_600, NOON + 3_600, 100 * NOON] {
        let (wall, passed) = (Arc::new(AtomicU64::new(NOON)), Arc::new(AtomicU64::new(0)));
        let (clock, hand, start) = (Arc::clone(&wall), Arc::clone(&passed), Instant::now());
        let store = MemoryStore::new()
            .clock(move || at(clock.load(Ordering::Relaxed)))
            .monotonic_clock(move || start + Duration::from_secs(hand.load(Ordering::Relaxed)));
        for n in 1..=3 {
            store.put(ticket(n), record(n, n, NOON + 100)).await.unwrap();
        }
        store.revoke(session(9), Duration::from_secs(100)).await.unwrap();
        wall.store(set, Ordering::Relaxed);
        passed.store(99, Ordering::Relaxed);
        assert_eq!(value(&store, 1).await, Some(1), "{set}");
        store.put(ticket(9), record(9, 9, set + 100)).await.unwrap();
        assert_eq!(value(&store, 9).await, None, "{set}: a revocation has been forgotten");
        // Whoever writes to it knows only until when it is good by the clock that was set.
        store.update(ticket(2), record(2, 22, set.max(NOON) + 100_000)).await.unwrap();
        passed.store(100, Ordering::Relaxed);
        for n in 1..=3 {
            assert_eq!(value(&store, n).await, None, "{set}: ticket {n} lives on");
        }
        assert!(!store.update(ticket(3), record(3, 3, set + 100)).await.unwrap());
        assert!(!take(&store, ticket(3), (ticket(4), record(3, 3, set + 100))).await);
    }
}

#[tokio::test]
async fn a_successor_under_a_name_that_is_taken_replaces_it() {
    let (store, _) = store(10);
    store.put(ticket(1), record(1, 1, 100)).await.unwrap();
    store.put(ticket(2), record(2, 2, 100)).await.unwrap();
    assert!(take(&*store, ticket(1), (ticket(2), record(1, 3, 100))).await);
    assert_eq!((store.len(), value(&*store, 2).await), (1, Some(3)));
    assert_eq!(store.revoke(session(2), HOUR).await.unwrap(), 0);
    assert!(take(&*store, ticket(2), (ticket(2), record(1, 4, 100))).await);
    assert_eq!((store.len(), value(&*store, 2).await), (1, Some(4)));
    assert_eq!(store.revoke(session(1), HOUR).await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_a_thousand_who_take_one_ticket_one_gets_it() {
    for round in 0..10 {
        let store: Arc<dyn SessionStore> = Arc::new(MemoryStore::new());
        let far = u64::from(u32::MAX);
        store.put(ticket(0), record(round, 0, far)).await.unwrap();
        let tasks: Vec<_> = (1..=1000)
            .map(|n| {
                let store = Arc::clone(&store);
                tokio::spawn(
                    async move { take(&*store, ticket(0), (ticket(n), record(round, n, far))).await },
                )
            })
            .collect();
        let mut winners = Vec::new();
        for (n, task) in (1..).zip(tasks) {
            if task.await.unwrap() {
                winners.push(n);
            }
        }
        assert_eq!(winners.len(), 1);
        for n in 0..=1000 {
            assert_eq!(value(&*store, n).await.is_some(), n == winners[0]);
        }
        assert_eq!(store.revoke(session(round), HOUR).await.unwrap(), 1);
    }
}

/// Each thread renews a ticket of one session, time and again, until that fails, while another thread revokes
/// the session.
#[tokio::test]
async fn a_revoked_session_does_not_live_on_in_a_ticket_that_was_being_renewed() {
    const THREADS: u64 = 4;
    for round in 0..100 {
        let (store, _) = store(1000);
        for n in 0..THREADS {
            store.put(ticket(n), record(7, n, 100)).await.unwrap();
        }
        let start = Barrier::new(THREADS as usize + 1);
        let renewed = AtomicUsize::new(0);
        thread::scope(|scope| {
            for n in 0..THREADS {
                let (store, start, renewed) = (&store, &start, &renewed);
                scope.spawn(move || {
                    start.wait();
                    let mut held = n;
                    while take_now(store, ticket(held), (ticket(held + THREADS), record(7, held, 100))) {
                        held += THREADS;
                        renewed.fetch_add(1, Ordering::Relaxed);
                    }
                    assert!(!now(store.update(ticket(held), record(7, held, 100))));
                });
            }
            start.wait();
            // Later in each round, so that the threads are met at work.
            while renewed.load(Ordering::Relaxed) < round {
                thread::yield_now();
            }
            assert_eq!(now(store.revoke(session(7), HOUR)), THREADS as usize);
            assert!(store.is_empty());
        });
        assert!(store.is_empty());
    }
}

/// The result of a future that is ready at once.
fn now<T>(future: nalix_server::store::StoreFuture<'_, T>) -> T {
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut cx) {
        std::task::Poll::Ready(result) => result.unwrap(),
        std::task::Poll::Pending => panic!("a store in memory does not wait"),
    }
}

fn take_now(store: &MemoryStore, ticket: TicketId, next: (TicketId, SessionRecord)) -> bool {
    let Some(seen) = now(store.get(ticket)) else { return false };
    now(store.take(ticket, &seen, next)) == Taken::Yes
}

/// A store that is simple enough to be right: tickets with session and value, the oldest first.
#[derive(Default)]
struct Model {
    tickets: Vec<(u64, u64, u64)>,
    /// Sessions that get no ticket until then.
    revoked: HashMap<u64, u64>,
    now: u64,
}

impl Model {
    const CAPACITY: usize = 20;

    fn is_revoked(&self, session: u64) -> bool {
        self.revoked.get(&session).is_some_and(|&until| self.now < until)
    }

    fn put(&mut self, name: u64, session: u64, value: u64) {
        if self.is_revoked(session) {
            return;
        }
        self.tickets.retain(|t| t.0 != name);
        if self.tickets.len() == Self::CAPACITY {
            self.tickets.remove(0);
        }
        self.tickets.push((name, session, value));
    }

    fn take(&mut self, name: u64, next: u64, value: u64) -> bool {
        let Some(at) = self.tickets.iter().position(|t| t.0 == name) else { return false };
        let (_, session, _) = self.tickets.remove(at);
        self.tickets.retain(|t| t.0 != next);
        self.tickets.push((next, session, value));
        true
    }

    fn update(&mut self, name: u64, session: u64, value: u64) -> bool {
        let revoked = self.is_revoked(session);
        let found = self.tickets.iter_mut().filter(|_| !revoked).find(|t| t.0 == name);
        found.map(|t| (t.1, t.2) = (session, value)).is_some()
    }

    fn revoke(&mut self, session: u64) -> usize {
        self.revoked.insert(session, self.now + REVOKED);
        let before = self.tickets.len();
        self.tickets.retain(|t| t.1 != session);
        before - self.tickets.len()
    }
}

const REVOKED: u64 = 10;
const FAR: u64 = 1_000_000;

#[tokio::test]
async fn any_order_of_calls_does_what_a_simple_list_does() {
    let (store, clock) = store(Model::CAPACITY);
    let mut model = Model::default();
    let mut seen = HashMap::new();
    let mut state = 1u64;
    // Knuth's generator; its upper bits are good enough to choose with.
    let mut below = |n: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % n
    };
    for value in 0..50_000 {
        clock.store(value, Ordering::Relaxed);
        model.now = value;
        let (name, next, of) = (below(60), below(60), below(12));
        let call = below(10);
        match call {
            0..=3 => {
                now(store.put(ticket(name), record(of, value, FAR)));
                model.put(name, of, value);
            }
            4..=6 => {
                let of = model.tickets.iter().find(|t| t.0 == name).map_or(0, |t| t.1);
                let taken = take_now(&store, ticket(name), (ticket(next), record(of, value, FAR)));
                assert_eq!(taken, model.take(name, next, value));
                *seen.entry((call, taken)).or_insert(0) += 1;
            }
            7..=8 => {
                let updated = now(store.update(ticket(name), record(of, value, FAR)));
                assert_eq!(updated, model.update(name, of, value));
                *seen.entry((call, updated)).or_insert(0) += 1;
            }
            _ => assert_eq!(now(store.revoke(session(of), Duration::from_secs(REVOKED))), model.revoke(of)),
        }
        assert_eq!(store.len(), model.tickets.len());
        let expected = model.tickets.iter().find(|t| t.0 == next).map(|t| t.2);
        assert_eq!(self::value(&*store, next).await, expected);
    }
    assert!(seen.values().all(|&times| times > 100), "every case has come up: {seen:?}");
}
