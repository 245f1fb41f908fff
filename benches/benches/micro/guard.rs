//! Letting links in by address, and turning them away.

use std::{
    hint::black_box,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    time::{Duration, Instant},
};

use divan::{Bencher, counter::ItemsCount};
use nalix_server::{Guard, GuardOptions, RefusalCause, Server, packet, packet_controller};

#[packet(opcode = 0x1004, reply = ())]
struct Unasked;

struct Nobody;

#[packet_controller]
impl Nobody {
    #[packet]
    fn unasked(&self, _: Unasked) {}
}

fn guard(options: GuardOptions) -> Guard {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let builder = Server::builder().plaintext().no_listener().controller(Nobody).guard(options);
        builder.build().await.unwrap().handle().guard()
    })
}

/// Limits that nobody reaches here.
fn generous() -> GuardOptions {
    let mut options = GuardOptions::default();
    (options.connects_per_second, options.connect_burst) = (u32::MAX, u32::MAX);
    options.max_connections_per_address = usize::MAX;
    options
}

fn addresses(n: u32) -> Vec<IpAddr> {
    (0..n).map(|n| IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + n))).collect()
}

/// Lets 1,000 links in, of as many addresses as there are, and counts them out again outside of the measurement.
#[divan::bench(args = [1, 1_000])]
fn accept_1000(bencher: Bencher<'_, '_>, addresses_known: u32) {
    let guard = guard(generous());
    let (now, from) = (Instant::now(), addresses(addresses_known));
    let kept: Vec<_> = from.iter().map(|&address| guard.admit(address, now).unwrap()).collect();
    bencher
        .counter(ItemsCount::new(1_000_usize))
        .with_inputs(|| Vec::with_capacity(1_000))
        .bench_local_values(|mut admitted| {
            let turns = from.iter().cycle().take(1_000);
            admitted.extend(turns.map(|&address| guard.admit(black_box(address), now).unwrap()));
            admitted
        });
    drop(kept);
}

/// In, and out again.
#[divan::bench(threads = [1, 2])]
fn accept_and_leave_1000(bencher: Bencher<'_, '_>) {
    let guard = guard(generous());
    in_and_out(bencher, &guard, &addresses(1_000));
}

#[divan::bench]
fn accept_and_leave_1000_ipv6(bencher: Bencher<'_, '_>) {
    let guard = guard(generous());
    let from: Vec<_> =
        (0..1_000).map(|n| IpAddr::V6(Ipv6Addr::from_bits((0x2001 << 112) + (n << 64)))).collect();
    in_and_out(bencher, &guard, &from);
}

/// Behind lists of 1,000 networks each.
#[divan::bench]
fn accept_and_leave_1000_listed(bencher: Bencher<'_, '_>) {
    let mut options = generous();
    let net = |first: u32| format!("{}/24", Ipv4Addr::from_bits(first << 8)).parse().unwrap();
    options.allow = (0..1_000).map(|n| net(0x0a_0000 + n)).collect();
    options.deny = (0..1_000).map(|n| net(0x0b_0000 + 2 * n)).collect();
    let guard = guard(options);
    in_and_out(bencher, &guard, &addresses(1_000));
}

fn in_and_out(bencher: Bencher<'_, '_>, guard: &Guard, from: &[IpAddr]) {
    let now = Instant::now();
    let kept: Vec<_> = from.iter().map(|&address| guard.admit(address, now).unwrap()).collect();
    bencher.counter(ItemsCount::new(from.len())).bench(|| {
        for &address in from {
            drop(black_box(guard.admit(black_box(address), now).unwrap()));
        }
    });
    drop(kept);
}

fn refuse(bencher: Bencher<'_, '_>, guard: &Guard, from: &[IpAddr], cause: RefusalCause) {
    let now = Instant::now();
    bencher.counter(ItemsCount::new(from.len())).bench(|| {
        for &address in from {
            let refusal = guard.admit(black_box(address), now).unwrap_err();
            assert!(black_box(refusal).cause == cause);
        }
    });
}

#[divan::bench(threads = [1, 2])]
fn refuse_banned_1000(bencher: Bencher<'_, '_>) {
    let (guard, from) = (guard(generous()), addresses(1_000));
    assert!(from.iter().all(|&address| guard.ban(address, Duration::from_secs(3_600))));
    refuse(bencher, &guard, &from, RefusalCause::Banned);
}

#[divan::bench]
fn refuse_too_fast_1000(bencher: Bencher<'_, '_>) {
    let mut options = generous();
    (options.connects_per_second, options.connect_burst) = (1, 1);
    let (guard, from) = (guard(options), addresses(1_000));
    // A time that does not go on brings nobody's turn.
    let now = Instant::now() + Duration::from_secs(3_600);
    from.iter().for_each(|&address| drop(guard.admit(address, now).unwrap()));
    refuse(bencher, &guard, &from, RefusalCause::TooFastFromAddress);
}

#[divan::bench]
fn refuse_denied_1000(bencher: Bencher<'_, '_>) {
    let mut options = generous();
    options.deny = vec!["10.0.0.0/8".parse().unwrap()];
    refuse(bencher, &guard(options), &addresses(1_000), RefusalCause::Denied);
}
