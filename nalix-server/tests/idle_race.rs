//! Requests that cross with the close of a connection: nothing runs that the caller is told did not run.

mod support;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use nalix_client::RequestError;
use nalix_server::{Options, packet, packet_controller};
use support::Both;

#[packet(opcode = 0x1001, reply = u32)]
struct Buy(u32);

#[derive(Clone, Default)]
struct Shop(Arc<AtomicUsize>);

#[packet_controller]
impl Shop {
    #[packet]
    fn buy(&self, Buy(n): Buy) -> u32 {
        self.0.fetch_add(1, Relaxed);
        n
    }
}

#[derive(Debug, Default)]
struct Outcomes {
    done: usize,
    unknown: usize,
    not_run: usize,
}

impl Outcomes {
    fn note(&mut self, result: &Result<u32, RequestError>) {
        match result {
            Ok(_) => self.done += 1,
            Err(RequestError::Disconnected { maybe_executed: true, .. }) => self.unknown += 1,
            Err(RequestError::Disconnected { maybe_executed: false, .. } | RequestError::Closed(_)) => {
                self.not_run += 1;
            }
            Err(error) => panic!("{error:?}"),
        }
    }

    fn check(&self, ran: usize) {
        assert!(ran >= self.done, "{self:?}, and {ran} have run");
        assert!(ran <= self.done + self.unknown, "{self:?}, but {ran} have run");
        assert!(self.done > 0 && self.not_run + self.unknown > 0, "both sides of the race: {self:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_crosses_with_an_idle_close_has_run_or_is_said_not_to_have() {
    const IDLE: Duration = Duration::from_millis(100);
    let shop = Shop::default();
    let options = Options::default().idle_timeout(IDLE).keep_alive(None);
    let mut both = Both::with(shop.clone(), options).await;
    both.client_options = Options::default().keep_alive(None);
    let mut outcomes = Outcomes::default();
    for n in 0..2_000u64 {
        let session = both.client().await;
        tokio::time::sleep(IDLE - Duration::from_millis(2) + Duration::from_micros(2 * n)).await;
        outcomes.note(&session.request(Buy(1)).await);
    }
    outcomes.check(shop.0.load(Relaxed));
}
