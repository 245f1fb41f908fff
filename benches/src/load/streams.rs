//! Several readers on one connection, each with one stream of items open.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::{
    Error,
    case::Streamed,
    load::{Stop, Tally},
};

/// A clonable handle on a connection, on which streams are opened.
pub(crate) trait Source: Clone + Send + 'static {
    type Items: Items;

    fn open(&mut self, of: Streamed) -> impl Future<Output = Result<Self::Items, Error>> + Send;
}

/// An open stream.
pub(crate) trait Items: Send + 'static {
    /// The next item: its number, and how many bytes of data it has.
    fn next(&mut self) -> impl Future<Output = Result<Option<(i64, usize)>, Error>> + Send;
}

/// Keeps `streams` readers busy, each a task of its own, until told to stop. They read the streams to their ends that are
/// open then. An operation is an item; what is timed is how long the first one of a stream takes.
pub(crate) async fn readers<S: Source>(
    source: &S,
    streams: usize,
    of: Streamed,
    stop: &Stop,
) -> Result<Tally, Error> {
    let mut tasks = JoinSet::new();
    for _ in 0..streams {
        tasks.spawn(run(source.clone(), of, stop.clone()));
    }
    let mut tally = Tally::new()?;
    while let Some(done) = tasks.join_next().await {
        let (items, times) = done??;
        tally.ops += items;
        times.into_iter().for_each(|took| tally.timed(took));
    }
    Ok(tally)
}

async fn run<S: Source>(mut source: S, of: Streamed, stop: Stop) -> Result<(u64, Vec<Duration>), Error> {
    let (mut read, mut times) = (0, Vec::new());
    while !stop.stopped() {
        let start = Instant::now();
        let mut items = source.open(of).await?;
        let mut expected = 0;
        while let Some((number, size)) = items.next().await? {
            if (number, size) != (expected, of.size) {
                return Err(format!("item {expected} came as {number}, with {size} bytes").into());
            }
            if expected == 0 {
                times.push(start.elapsed());
            }
            expected += 1;
        }
        if expected != i64::from(of.items) {
            return Err(format!("the stream ended behind {expected} items of {}", of.items).into());
        }
        read += u64::from(of.items);
    }
    Ok((read, times))
}
