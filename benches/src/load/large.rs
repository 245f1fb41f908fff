//! Large messages in both directions at once, and small calls at a steady pace beside them on the same connection.

use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::{
    task::JoinSet,
    time::{MissedTickBehavior, interval},
};

use crate::{
    Error,
    case::LARGE,
    load::{Stop, Tally},
};

/// A clonable handle on a connection that takes large messages.
pub(crate) trait Mover: Clone + Send + 'static {
    /// Sends `data`, and returns how many bytes have arrived.
    fn store(&mut self, data: &Bytes) -> impl Future<Output = Result<usize, Error>> + Send;

    /// Asks for a message of `size` bytes, and returns how many have come.
    fn fetch(&mut self, size: usize) -> impl Future<Output = Result<usize, Error>> + Send;

    /// Sends `data`, waits for its echo, returns how long that was.
    fn small(&mut self, data: &Bytes) -> impl Future<Output = Result<usize, Error>> + Send;
}

/// Moves large messages until told to stop. An operation is one of them; what is timed are the small calls.
pub(crate) async fn movers<M: Mover>(client: &M, stop: &Stop) -> Result<Tally, Error> {
    let beside = tokio::spawn(small_calls(client.clone(), stop.clone()));
    let up = tokio::spawn(up(client.clone(), stop.clone()));
    let down = tokio::spawn(down(client.clone(), stop.clone()));
    let (up, down) = (up.await??, down.await??);
    let mut tally = beside.await??;
    tally.ops = up + down;
    Ok(tally)
}

async fn up<M: Mover>(mut client: M, stop: Stop) -> Result<u64, Error> {
    let data = Bytes::from(vec![0xA5; LARGE]);
    let mut ops = 0;
    while !stop.stopped() {
        whole(client.store(&data).await?)?;
        ops += 1;
    }
    Ok(ops)
}

async fn down<M: Mover>(mut client: M, stop: Stop) -> Result<u64, Error> {
    let mut ops = 0;
    while !stop.stopped() {
        whole(client.fetch(LARGE).await?)?;
        ops += 1;
    }
    Ok(ops)
}

fn whole(size: usize) -> Result<(), Error> {
    if size == LARGE { Ok(()) } else { Err(format!("{LARGE} bytes came as {size}").into()) }
}

/// A call every [`PACE`], whether the one before has been answered or not: one that is slow holds up none, and hides none.
async fn small_calls<M: Mover>(client: M, stop: Stop) -> Result<Tally, Error> {
    let data = Bytes::from(vec![0x5A; SMALL]);
    let mut tally = Tally::new()?;
    let mut calls: JoinSet<Result<Duration, Error>> = JoinSet::new();
    let mut ticks = interval(PACE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    while !stop.stopped() {
        ticks.tick().await;
        let (mut client, data) = (client.clone(), data.clone());
        calls.spawn(async move {
            let start = Instant::now();
            match client.small(&data).await? {
                SMALL => Ok(start.elapsed()),
                other => Err(format!("{SMALL} bytes came back as {other}").into()),
            }
        });
        while let Some(done) = calls.try_join_next() {
            tally.timed(done??);
        }
    }
    while let Some(done) = calls.join_next().await {
        tally.timed(done??);
    }
    Ok(tally)
}

/// Bytes of a small call.
const SMALL: usize = 64;
const PACE: Duration = Duration::from_millis(10);
