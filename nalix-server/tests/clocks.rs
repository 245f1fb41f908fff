//! What a client learns of the server's time and of round trips.

mod support;

use std::time::SystemTime;

use nalix_client::ClockError;
use nalix_server::{packet, packet_controller};
use support::Both;

#[packet(opcode = 0x1001, reply = u32)]
struct Next(u32);

struct Game;

#[packet_controller]
impl Game {
    #[packet]
    fn next(&self, Next(n): Next) -> u32 {
        n + 1
    }
}

/// Both have the same clock here, so it is known what is right.
#[tokio::test]
async fn a_client_learns_the_servers_time_within_what_it_says() {
    let both = Both::new(Game).await;
    let session = both.client().await;
    assert_eq!(session.server_time(), None);
    session.sync_clock().await.unwrap();
    let before = SystemTime::now();
    let shown = session.server_time().unwrap();
    let after = SystemTime::now();
    // What is shown is of some moment in between.
    let micro = std::time::Duration::from_micros(1);
    assert!(shown.time + shown.error + micro >= before, "{shown:?} {before:?}");
    assert!(shown.time <= after + shown.error + micro, "{shown:?} {after:?}");
    let mut last = shown.time;
    for _ in 0..100 {
        let next = session.sync_clock().await.unwrap();
        assert!(next.time >= last);
        last = next.time;
    }
    session.ping().await.unwrap();
    let rtt = session.rtt().unwrap();
    assert!(rtt.min() <= rtt.latest());
    session.close().await;
    // What is known stays known.
    assert!(session.sync_clock().await.unwrap().time >= last);
}

#[tokio::test]
async fn a_session_that_is_over_never_learns_it() {
    let both = Both::new(Game).await;
    let session = both.client().await;
    session.close().await;
    assert!(matches!(session.sync_clock().await, Err(ClockError::Closed(_))));
}
