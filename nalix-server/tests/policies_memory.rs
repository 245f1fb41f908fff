//! What a policy costs a call that meets it: no memory, and little time.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::time::Duration;

use nalix_core::controller::{Outcome, RateLimiter, RatePolicy, ReplyBuffer, StateMap};
use nalix_core::wire::Limits;
use nalix_server::{
    Bytes, Call, CallKind, Context, Opcode, Options, Permission, RateKey, ReplyKind, Router, packet,
    packet_controller,
};
use peak_alloc::PeakAlloc;
use support::{server, session};

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

#[packet(opcode = 0x1001)]
struct Free;

#[packet(opcode = 0x1002)]
struct Permitted;

#[packet(opcode = 0x1003)]
struct Placed;

#[packet(opcode = 0x1004)]
struct Broken;

struct Lab;

#[packet_controller]
impl Lab {
    #[packet]
    fn free(&self, _: Free) {}

    #[packet(permission = Permission::USER)]
    fn permitted(&self, _: Permitted) {}

    #[packet(permission = Permission::USER, concurrency = 4)]
    fn placed(&self, _: Placed) {}

    #[packet(breaker = 3)]
    fn broken(&self, _: Broken) {}
}

struct Bench {
    router: Router,
    context: Context,
}

impl Bench {
    async fn new() -> (Self, impl Sized) {
        let server = server(Lab, Options::default()).await;
        let session = session(&server).await;
        support::until("it is there", || server.connection_count() == 1).await;
        let connection = server.connections().remove(0);
        connection.set_permission(Permission::USER);
        let mut router = Router::builder();
        router.add(Lab);
        let context = Context::new(connection, std::sync::Arc::new(StateMap::default()), Limits::DEFAULT);
        (Self { router: router.build().unwrap(), context }, (server, session))
    }

    fn call(&self, opcode: u16) {
        let opcode = Opcode::new(opcode);
        let route = self.router.route(opcode).unwrap();
        let reply = ReplyBuffer::new(Vec::new(), 1_000);
        let context = self.context.for_call(opcode, None);
        let call = Call::new(CallKind::OneWay, route, context, Bytes::new(), reply);
        match self.router.dispatch(call) {
            Outcome::Ready(reply) => assert_eq!(*reply.kind(), ReplyKind::Nothing),
            Outcome::Pending(_) => panic!("it is done at once"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn calls_that_meet_their_policy_allocate_nothing() {
    let (bench, _held) = Bench::new().await;
    let limiter = RateLimiter::new(
        RatePolicy::new("1000000/s".parse().unwrap()).key(RateKey::Address),
        tokio::time::Instant::now().into_std(),
    );
    let now = tokio::time::Instant::now().into_std();
    limiter.take(bench.context.connection(), now).unwrap();
    let calls = || {
        for opcode in 0x1001..=0x1004 {
            bench.call(opcode);
        }
        limiter.take(bench.context.connection(), now).unwrap();
    };
    calls();
    // Other threads, such as that of the test's runner, allocate now and then: calls that did would do so every time.
    let quiet = (0..20).any(|_| {
        HEAP.reset_peak_usage();
        let before = HEAP.current_usage();
        (0..100).for_each(|_| calls());
        (HEAP.current_usage(), HEAP.peak_usage()) == (before, before)
    });
    assert!(quiet, "every hundred calls allocate");
}

/// For people: `cargo test --release -p nalix-server --test policies_memory -- --ignored --nocapture`.
#[tokio::test]
#[ignore = "it measures, which takes its time and depends on the machine"]
async fn what_policies_cost() {
    let (bench, _held) = Bench::new().await;
    let measure = |f: &dyn Fn()| {
        let runs = (0..20).map(|_| {
            let start = std::time::Instant::now();
            (0..200_000).for_each(|_| f());
            start.elapsed() / 200_000
        });
        runs.min().unwrap_or(Duration::ZERO)
    };
    for (opcode, name) in
        [(0x1001, "none"), (0x1002, "permission"), (0x1003, "and places"), (0x1004, "breaker")]
    {
        println!("{name}: {:?} per call", measure(&|| bench.call(opcode)));
    }
    for key in [RateKey::Session, RateKey::Identity, RateKey::Address] {
        let limiter = RateLimiter::new(
            RatePolicy::new("4294967295/ms".parse().unwrap()).key(key),
            std::time::Instant::now(),
        );
        let now = std::time::Instant::now() + Duration::from_secs(1);
        let cost = measure(&|| limiter.take(bench.context.connection(), now).unwrap());
        println!("rate by {key:?}, shared: {cost:?}");
    }
    println!(
        "the time: {:?}",
        measure(&|| {
            std::hint::black_box(std::time::Instant::now());
        })
    );
}
