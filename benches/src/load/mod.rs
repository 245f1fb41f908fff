//! Drives one peer through one case and measures it.

mod callers;
mod echo;
mod large;
mod members;
mod peer;
mod sample;
mod streams;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;
use tokio::runtime::Handle;

pub(crate) use self::{
    callers::{Caller, GREETING, callers},
    large::{Mover, movers},
    members::{Gathering, Sender},
    peer::{Client, Peer, Ready},
    sample::{ENCODES, Extra, GROWN, SKIPPED, Sample, WRITES},
    streams::{Items, Source, readers},
};
use crate::{
    Error,
    case::{Case, Work},
    child::Child,
    cores::Cores,
    measure::Usage,
};

/// One case, ready to be run against a server.
#[derive(Debug)]
pub(crate) struct Load<'a> {
    pub(crate) case: &'a Case,
    pub(crate) cores: &'a Cores,
    pub(crate) window: Duration,
}

/// What a client did in one stretch of work.
#[derive(Debug, Clone)]
pub(crate) struct Tally {
    pub(crate) ops: u64,
    latency: Histogram<u64>,
}

/// Tells every worker that the window is over.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

/// Connects, warms up, measures one window.
pub(crate) fn measure<P: Peer>(load: &Load<'_>, server: &mut Child) -> Result<Sample, Error> {
    let clients = connect::<P>(load, server)?;
    let (clients, _) = work(load, clients, load.window / 3)?;
    // Nothing is in flight here nor after the window, so that the server's counts belong to exactly these operations.
    server.reset()?;
    let before = Usage::now()?;
    let start = Instant::now();
    let (clients, tally) = work(load, clients, load.window)?;
    let elapsed = start.elapsed();
    let client = Usage::now()?.since(&before);
    let server = server.report()?;
    drop(clients);
    if tally.ops == 0 {
        return Err("not one operation finished".into());
    }
    Ok(Sample::of(load.case.work, elapsed.as_secs_f64(), &tally, &server, &client))
}

fn connect<P: Peer>(load: &Load<'_>, server: &Child) -> Result<Vec<P::Client>, Error> {
    let connect = |index| {
        let core = load.cores.of(index);
        wait(core, core.spawn(P::connect(server.target(index).clone(), load.case.work)))??
    };
    (0..load.case.connections).map(connect).collect()
}

/// Runs every client on its core for `window`, and until what it has in flight has come back.
fn work<C: Client>(load: &Load<'_>, clients: Vec<C>, window: Duration) -> Result<(Vec<C>, Tally), Error> {
    let stop = Stop::default();
    let spawn = |(index, client)| load.cores.of(index).spawn(run(client, load.case.work, stop.clone()));
    let tasks: Vec<_> = clients.into_iter().enumerate().map(spawn).collect();
    thread::sleep(window);
    stop.stop();
    let ended = async {
        let (mut clients, mut sum) = (Vec::with_capacity(tasks.len()), Tally::new()?);
        for task in tasks {
            let (client, tally) = task.await??;
            sum.add(&tally)?;
            clients.push(client);
        }
        Ok((clients, sum))
    };
    wait(load.cores.of(0), ended)?
}

/// Blocks this thread, which is none of the runtimes' own, until `future` ends, but not for ever.
fn wait<F: Future>(core: &Handle, future: F) -> Result<F::Output, Error> {
    let ended = core.block_on(async { tokio::time::timeout(GRACE, future).await });
    ended.map_err(|_| format!("no answer within {GRACE:?}").into())
}

async fn run<C: Client>(mut client: C, work: Work, stop: Stop) -> Result<(C, Tally), Error> {
    let tally = match work {
        Work::Echo { payload } => echo::run(&mut client, payload, &stop).await?,
        Work::Calls { call, in_flight } => client.calls(call, in_flight, &stop).await?,
        Work::Streams { streams, of } => client.streams(streams, of, &stop).await?,
        Work::Fanout(_) => client.fanout(&stop).await?,
        Work::Large => client.large(&stop).await?,
    };
    Ok((client, tally))
}

impl Tally {
    pub(crate) fn new() -> Result<Self, Error> {
        // 100 ns to a minute, within 0.1 %.
        let latency =
            Histogram::new_with_bounds(100, 60_000_000_000, 3).map_err(|error| format!("{error:?}"))?;
        Ok(Self { ops: 0, latency })
    }

    /// Notes how long one operation took. Not every operation needs to be timed.
    pub(crate) fn timed(&mut self, took: Duration) {
        self.latency.saturating_record(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    }

    fn add(&mut self, other: &Self) -> Result<(), Error> {
        self.ops += other.ops;
        self.latency.add(&other.latency).map_err(|error| format!("{error:?}").into())
    }

    /// How many operations were timed.
    #[cfg(test)]
    pub(crate) fn timed_ops(&self) -> u64 {
        self.latency.len()
    }

    fn micros(&self, quantile: f64) -> f64 {
        self.latency.value_at_quantile(quantile) as f64 / 1000.0
    }
}

impl Stop {
    pub(crate) fn stopped(&self) -> bool {
        self.0.load(Relaxed)
    }

    fn stop(&self) {
        self.0.store(true, Relaxed);
    }
}

/// One call of a pipeline in this many is timed: the clock must not cost more than the call.
pub(crate) const TIMED_ONE_IN: usize = 8;

/// How long a peer may take to connect, all members of a group included, or to answer what was in flight when a window ended.
const GRACE: Duration = Duration::from_secs(60);
