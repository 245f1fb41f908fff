//! Taking from rates, by one thread and by two.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use divan::{Bencher, counter::ItemsCount};
use nalix_core::limit::{Bucket, KeyedLimiter, Rate};

/// So generous that nothing is ever refused.
fn rate() -> Rate {
    Rate::new(1_000_000_000, Duration::from_secs(1)).unwrap().with_burst(1_000_000_000)
}

/// One bucket for all: the worst case for two threads.
#[divan::bench(threads = [1, 2])]
fn one_bucket_1000(bencher: Bencher<'_, '_>) {
    let start = Instant::now();
    let bucket = Bucket::new(rate(), start);
    let now = start + Duration::from_secs(10);
    bencher.counter(ItemsCount::new(1_000_usize)).bench(|| {
        for _ in 0..1_000 {
            black_box(bucket.take(1, black_box(now))).unwrap();
        }
    });
}

/// One of a thousand keys at a time.
#[divan::bench(threads = [1, 2])]
fn a_thousand_keys_1000(bencher: Bencher<'_, '_>) {
    let start = Instant::now();
    let limiter = KeyedLimiter::new(rate(), 4_096, start);
    let now = start + Duration::from_secs(10);
    bencher.counter(ItemsCount::new(1_000_usize)).bench(|| {
        for key in 0..1_000_u64 {
            black_box(limiter.take(black_box(key), 1, now)).unwrap();
        }
    });
}

/// As one that has nothing left.
#[divan::bench(threads = [1, 2])]
fn refused_1000(bencher: Bencher<'_, '_>) {
    let start = Instant::now();
    let bucket = Bucket::new(Rate::per_second(1), start);
    while bucket.take(1, start).is_ok() {}
    bencher.counter(ItemsCount::new(1_000_usize)).bench(|| {
        for _ in 0..1_000 {
            black_box(bucket.take(1, black_box(start))).unwrap_err();
        }
    });
}
