//! Where quotes come from.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use nalix_server::{Delivery, Hub};
use tokio::{task::JoinHandle, time::interval};

use crate::{
    contracts::{Quote, Symbol},
    tape::Tape,
};

/// How often there is a new quote of each symbol.
pub const EVERY: Duration = Duration::from_millis(1);

/// Quotes that each tape remembers: those of one second.
const REMEMBERED: usize = 1000;

/// The tapes of all symbols.
#[derive(Clone)]
pub struct Market {
    tapes: Arc<[Tape; Symbol::ALL.len()]>,
}

impl Market {
    pub fn new() -> Self {
        Self { tapes: Arc::new(Symbol::ALL.map(|_| Tape::new(REMEMBERED))) }
    }

    pub fn tape(&self, symbol: Symbol) -> &Tape {
        &self.tapes[symbol as usize]
    }

    /// Trades, until what is returned is dropped: writes quotes on the tapes, and pushes them to those who have
    /// subscribed.
    pub fn open(&self, hub: Hub) -> Open {
        let market = self.clone();
        Open(tokio::spawn(async move {
            let mut dice = Dice(1);
            let mut prices = [20_000; Symbol::ALL.len()];
            let mut clock = interval(EVERY);
            loop {
                clock.tick().await;
                for symbol in Symbol::ALL {
                    let price = &mut prices[symbol as usize];
                    *price = (*price + dice.below(201)).saturating_sub(100).max(1);
                    let quote = market.tape(symbol).push(|number| Quote {
                        symbol,
                        number,
                        price: *price,
                        at: SystemTime::now(),
                    });
                    // One that waits for a reader whose connection is slow is replaced by the next of its symbol.
                    hub.group(symbol).with(Delivery::Latest(symbol as u64)).send(&quote);
                }
            }
        }))
    }
}

/// A market that is open.
pub struct Open(JoinHandle<()>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Numbers that look random and are the same each time (after George Marsaglia's xorshift).
struct Dice(u32);

impl Dice {
    fn below(&mut self, end: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        self.0 % end
    }
}
