//! Many callers on one connection, each with one `Sum` in flight: how an application looks to a client library.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::{
    Error,
    load::{Stop, TIMED_ONE_IN, Tally},
};

/// A clonable handle on a connection: what concurrent callers share.
pub(crate) trait Caller: Clone + Send + 'static {
    fn sum(&mut self, a: i32, b: i32) -> impl Future<Output = Result<i32, Error>> + Send;
}

/// Keeps `in_flight` callers busy, each a task of its own, until told to stop.
pub(crate) async fn callers<C: Caller>(client: &C, in_flight: usize, stop: &Stop) -> Result<Tally, Error> {
    let mut tasks = JoinSet::new();
    for index in 0..in_flight {
        tasks.spawn(call(client.clone(), index, stop.clone()));
    }
    let mut tally = Tally::new()?;
    while let Some(done) = tasks.join_next().await {
        let (ops, times) = done??;
        tally.ops += ops;
        times.into_iter().for_each(|took| tally.timed(took));
    }
    Ok(tally)
}

async fn call<C: Caller>(mut client: C, index: usize, stop: Stop) -> Result<(u64, Vec<Duration>), Error> {
    let timed = index.is_multiple_of(TIMED_ONE_IN);
    let (mut ops, mut times) = (0, Vec::new());
    let mut operand = index as i32;
    while !stop.stopped() {
        let start = timed.then(Instant::now);
        let sum = client.sum(operand, 1).await?;
        if sum != operand.wrapping_add(1) {
            return Err(format!("{operand} + 1 came back as {sum}").into());
        }
        times.extend(start.map(|start| start.elapsed()));
        operand = sum;
        ops += 1;
    }
    Ok((ops, times))
}
