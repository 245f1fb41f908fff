//! The server's half.

use std::{
    array,
    sync::atomic::{AtomicU64, Ordering},
    task::{Poll, ready},
};

use nalix_server::{BuildError, Context, HubExt, Server, Status, Stream, packet_controller, stream};

use crate::{
    contracts::{Made, Ping, READERS, Subscribe, Tick, Watch},
    market::{Market, Open},
};

struct Ticker {
    market: Market,
}

/// How many items have been made for each reader. Kept with the connection.
struct Counts([AtomicU64; READERS]);

#[packet_controller]
impl Ticker {
    #[connected]
    fn welcome(&self, ctx: &Context) {
        ctx.set(Counts(array::from_fn(|_| AtomicU64::new(0))));
    }

    /// The quotes for one reader, made when they are asked for: that is, when the reader has room for one more. So a slow
    /// reader costs no memory but its window, and what it has no time for is not even sent.
    #[packet]
    fn watch(&self, ctx: &Context, watch: Watch) -> Result<impl Stream<Item = Tick>, Status> {
        let reader = usize::from(watch.reader);
        let counts = ctx.get::<Counts>().filter(|_| reader < READERS);
        let counts =
            counts.ok_or_else(|| Status::invalid_argument(format!("there are {READERS} readers at most")))?;
        let tape = self.market.tape(watch.symbol);
        let mut at = tape.next();
        Ok(stream::poll_fn(move |cx| {
            let tick = ready!(tape.poll_read(&mut at, watch.pace, cx));
            counts.0[reader].fetch_add(1, Ordering::Relaxed);
            Poll::Ready(Some(tick))
        }))
    }

    #[packet]
    fn subscribe(&self, ctx: &Context, Subscribe { symbol }: Subscribe) -> Result<(), Status> {
        ctx.group(symbol).join(ctx).ok()
    }

    #[packet]
    fn made(&self, ctx: &Context, Made { reader }: Made) -> u64 {
        let counts = ctx.get::<Counts>();
        let count = counts.as_ref().and_then(|counts| counts.0.get(usize::from(reader)));
        count.map_or(0, |count| count.load(Ordering::Relaxed))
    }

    #[packet]
    fn ping(&self, _: Ping) {}
}

/// A server that listens on `address`, and its market, which is open until that is dropped.
///
/// Everything travels in the clear, to keep the example short; the example `secure` shows what to do about that.
pub async fn build(address: &str) -> Result<(Server, Open), BuildError> {
    let market = Market::new();
    let ticker = Ticker { market: market.clone() };
    let server = Server::builder().plaintext().tcp(address).controller(ticker).build().await?;
    let open = market.open(server.handle().hub());
    Ok((server, open))
}
