//! Many callers on one connection, each with one call in flight: how an application looks to a client library.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::{
    Error,
    case::Call,
    load::{Stop, TIMED_ONE_IN, Tally},
};

/// A clonable handle on a connection: what concurrent callers share.
pub(crate) trait Caller: Clone + Send + 'static {
    fn sum(&mut self, a: i32, b: i32) -> impl Future<Output = Result<i32, Error>> + Send;

    /// Asks for a user and returns that user's id.
    fn get_user(&mut self, id: i64) -> impl Future<Output = Result<i64, Error>> + Send;

    /// Sends a greeting, which comes back, and returns the number in it.
    fn say_hello(&mut self) -> impl Future<Output = Result<i32, Error>> + Send;
}

/// Keeps `in_flight` callers busy, each a task of its own, until told to stop.
pub(crate) async fn callers<C: Caller>(
    client: &C,
    call: Call,
    in_flight: usize,
    stop: &Stop,
) -> Result<Tally, Error> {
    let mut tasks = JoinSet::new();
    for index in 0..in_flight {
        tasks.spawn(run(client.clone(), call, index, stop.clone()));
    }
    let mut tally = Tally::new()?;
    while let Some(done) = tasks.join_next().await {
        let (ops, times) = done??;
        tally.ops += ops;
        times.into_iter().for_each(|took| tally.timed(took));
    }
    Ok(tally)
}

async fn run<C: Caller>(
    mut client: C,
    call: Call,
    index: usize,
    stop: Stop,
) -> Result<(u64, Vec<Duration>), Error> {
    let timed = index.is_multiple_of(TIMED_ONE_IN);
    let (mut ops, mut times) = (0, Vec::new());
    let mut operand = index as i32;
    while !stop.stopped() {
        let start = timed.then(Instant::now);
        match call {
            Call::Sum => {
                let sum = client.sum(operand, 1).await?;
                check(i64::from(sum), i64::from(operand.wrapping_add(1)))?;
                operand = sum;
            }
            Call::GetUser => check(client.get_user(1).await?, 1)?,
            Call::SayHello => check(client.say_hello().await?.into(), GREETING.into())?,
        }
        times.extend(start.map(|start| start.elapsed()));
        ops += 1;
    }
    Ok((ops, times))
}

fn check(answer: i64, expected: i64) -> Result<(), Error> {
    if answer == expected { Ok(()) } else { Err(format!("the answer is {answer}, not {expected}").into()) }
}

/// The number in every greeting.
pub(crate) const GREETING: i32 = 32;
