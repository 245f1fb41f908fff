//! Keeping a session and taking it up again, by one thread and by two.

use std::{
    future::Future,
    hint::black_box,
    pin::pin,
    sync::atomic::{AtomicU64, Ordering},
    task::{Context, Poll, Waker},
    time::{Duration, SystemTime},
};

use divan::{Bencher, counter::ItemsCount};
use nalix_server::store::{Key, MemoryStore, SessionId, SessionRecord, SessionStore, Taken, TicketId};

/// The result of a future that is there at once.
fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => panic!("the store is in memory"),
    }
}

fn ticket(n: u64) -> TicketId {
    // As evenly spread as random ones are.
    TicketId::from_bytes(
        (u128::from(n).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c834)).to_le_bytes(),
    )
}

/// A ticket is put in and taken for the next, of each of 1,000 sessions, beside 50,000 others.
#[divan::bench(threads = [1, 2])]
fn put_and_take_1000(bencher: Bencher<'_, '_>) {
    let store = MemoryStore::new();
    let expires = SystemTime::now() + Duration::from_secs(3_600);
    let record = |n: u64| {
        let session = SessionId::from_bytes(u128::from(n).to_le_bytes());
        SessionRecord::new(session, Key::new([7; Key::LEN]), expires)
    };
    let next = AtomicU64::new(1);
    for _ in 0..50_000 {
        let n = next.fetch_add(1, Ordering::Relaxed);
        now(store.put(ticket(n), record(n))).unwrap();
    }
    bencher.counter(ItemsCount::new(1_000_usize)).bench(|| {
        let first = next.fetch_add(2_000, Ordering::Relaxed);
        for n in (first..first + 2_000).step_by(2) {
            now(store.put(ticket(n), record(n))).unwrap();
            assert_eq!(
                black_box(now(store.take(ticket(n), &record(n), (ticket(n + 1), record(n)))).unwrap()),
                Taken::Yes
            );
        }
    });
}
