//! Tests: a connection whose key has sealed all that it may, and one whose key changes under load.

use std::time::Duration;

use super::{Driver, Options, Serving, establish::settle};
use crate::{
    CloseCode, CloseReason, Connection, RequestError,
    controller::Router,
    handshake::{Sealing, Terms},
    link::memory,
    packet, packet_controller,
    record::{Key, MAX_RECORDS, Opener, RECORDS_PER_KEY, Sealer},
    session::{Inbound, MAX_MESSAGE, Outbound},
};

#[packet(opcode = 0x1e11, reply = u32)]
struct Next(u32);

struct Game;

#[packet_controller]
impl Game {
    #[packet]
    fn next(&self, Next(n): Next) -> u32 {
        n + 1
    }
}

/// Two ends whose next records have these numbers, from the client and from the server.
async fn pair(there: u64, back: u64) -> (Connection, tokio::task::JoinHandle<CloseReason>) {
    let terms = Terms {
        version: 1,
        message_out: 1_000,
        message_in: 1_000,
        calls_out: 1_000,
        calls_in: 1_000,
        window_out: 0,
        window_in: 0,
        compression_out: false,
        compression_in: false,
        lasting: false,
        sealing: Sealing::All,
    };
    let (near, far) = memory::pair(1 << 16);
    let options = Options::default();
    let key = |n| Key::new([n; Key::LEN]);
    let end = |link, (sealer, opener): (Sealer, Opener), router: Router| {
        let mut inbound = Inbound::new(MAX_MESSAGE);
        inbound.establish_secured(terms.message_in, opener, terms.sealing);
        let outbound = Outbound::secured(terms.message_out, sealer, terms.sealing);
        let established = settle(link, (inbound, outbound), terms, None, None, &options);
        Driver::new(established, Serving::from(router), &options)
    };
    let mut router = Router::builder();
    router.add(Game);
    let (connection, driver) =
        end(near, (Sealer::at(key(1), there), Opener::at(key(2), back)), Router::empty());
    tokio::spawn(driver);
    let router = router.build().unwrap();
    let (_, driver) = end(far, (Sealer::at(key(2), back), Opener::at(key(1), there)), router);
    (connection, tokio::spawn(driver))
}

#[tokio::test(start_paused = true)]
async fn a_worn_out_key_ends_the_connection_and_seals_nothing_more() {
    for (there, back, answered) in [(MAX_RECORDS - 3, 0, 3), (0, MAX_RECORDS - 3, 3)] {
        let (connection, server) = pair(there, back).await;
        let mut last = Ok(0);
        let mut count = 0;
        for n in 0..10 {
            last = connection.request(Next(n)).timeout(Duration::from_secs(5)).await;
            match last {
                Ok(next) => assert_eq!(next, n + 1),
                Err(_) => break,
            }
            count += 1;
        }
        assert_eq!(count, answered);
        assert!(matches!(last, Err(RequestError::Disconnected { .. })), "{last:?}");
        let (ours, theirs) = (connection.closed().await, server.await.unwrap());
        let codes = [ours.code, theirs.code];
        // The other side hears nothing more, since nothing more can be sealed.
        assert!(codes.contains(&CloseCode::LimitExceeded) && codes.contains(&CloseCode::Lost), "{codes:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn no_call_is_lost_when_keys_change_under_load() {
    let (connection, _server) = pair(RECORDS_PER_KEY - 5, RECORDS_PER_KEY - 7).await;
    let calls: Vec<_> = (0..1_000)
        .map(|n| {
            let connection = connection.clone();
            tokio::spawn(async move { connection.request(Next(n)).await })
        })
        .collect();
    for (n, call) in (1..).zip(calls) {
        assert_eq!(call.await.unwrap().unwrap(), n);
        if n % 100 == 0 {
            // One by one, too: each goes in a record of its own.
            assert_eq!(connection.request(Next(n)).await.unwrap(), n + 1);
        }
    }
}
