//! What it takes to let links in and turn them away: no memory, once an address is known.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    net::{IpAddr, Ipv4Addr},
    time::{Duration, Instant},
};

use nalix_server::{GuardOptions, RefusalCause, Server, packet, packet_controller};
use peak_alloc::PeakAlloc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

#[packet(opcode = 0x1001, reply = ())]
struct Unasked;

struct Nobody;

#[packet_controller]
impl Nobody {
    #[packet]
    fn unasked(&self, _: Unasked) {}
}

/// The only test here, so that nothing else takes memory meanwhile.
#[tokio::test]
async fn links_are_let_in_and_turned_away_without_an_allocation_and_a_flood_of_addresses_is_bounded() {
    let mut options = GuardOptions::default();
    (options.connects_per_second, options.connect_burst) = (1, 600);
    options.deny = vec!["11.0.0.0/8".parse().unwrap()];
    options.max_addresses = 4_096;
    let builder = Server::builder().plaintext().no_listener().controller(Nobody).guard(options);
    let guard = builder.build().await.unwrap().handle().guard();
    let address = |n: u32| IpAddr::V4(Ipv4Addr::from_bits(n));
    let (known, banned, denied) = (address(0x0a00_0001), address(0x0a00_0002), address(0x0b00_0001));
    let now = Instant::now();
    drop(guard.admit(known, now).unwrap());
    assert!(guard.ban(banned, Duration::from_secs(600)));

    let mut causes = [0; 3];
    let mut before = 0;
    // The allocator counts for all threads, and the test's own harness has some: one quiet run in ten is proof enough.
    let is_quiet = (0..10).any(|_| {
        before = MEMORY.current_usage();
        MEMORY.reset_peak_usage();
        for _ in 0..1_000 {
            for address in [known, banned, denied] {
                match guard.admit(address, now).map(drop).map_err(|refusal| refusal.cause) {
                    Ok(()) => {}
                    Err(RefusalCause::TooFastFromAddress) => causes[0] += 1,
                    Err(RefusalCause::Banned) => causes[1] += 1,
                    Err(RefusalCause::Denied) => causes[2] += 1,
                    Err(cause) => panic!("{cause:?}"),
                }
            }
        }
        (MEMORY.peak_usage(), MEMORY.current_usage()) == (before, before)
    });
    assert!(is_quiet, "it allocates");
    assert!(causes.iter().all(|&count| count >= 401), "{causes:?}");

    for n in 0..200_000 {
        let admitted = guard.admit(address(0x1400_0000 + n), now);
        drop(admitted);
    }
    let taken = MEMORY.current_usage() - before;
    // 80 bytes each, and tables that have room for twice as many as they hold.
    assert!(taken < 4_096 * 80 * 2 + 64 * 1_024, "{taken} bytes");
    assert!(guard.known_addresses() <= 4_096);
    assert!(guard.banned(banned).is_some(), "it was forgotten");
    println!("{taken} bytes for {} addresses", guard.known_addresses());
}
