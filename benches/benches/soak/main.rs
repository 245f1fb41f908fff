//! Thousands of connections, some of which behave badly: whether the others notice, whether memory stays flat, whether everyone
//! bad is closed with its code, and whether a shutdown under that load reaches everybody in time.
//!
//!     cargo bench -p nalix-benches --bench soak              5,000 connections for a minute, after 20 s without the bad ones
//!     cargo bench -p nalix-benches --bench soak -- --quick   300 connections for some seconds; times are shown and not judged
//!
//! `--secs N` and `--connections N` change how long the bad ones stay and how many connections there are in all, with as many
//! callers fewer or more; the bad ones stay as many.
//!
//! The bad ones come anew every six seconds, within three. They and the server are processes of their own. Ends with an error if one of the bounds is broken.

mod bad;
mod callers;
mod remote;
mod server;

use std::{
    collections::BTreeMap,
    error::Error,
    process::ExitCode,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use bytes::Bytes;
use nalix_core::packet;
use tokio::task::JoinSet;

use self::{
    callers::{Seen, call, caller, join, show},
    remote::Remote,
};

pub(crate) type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

#[packet(opcode = 0x1001, reply = Bytes)]
pub(crate) struct Echo {
    pub(crate) data: Bytes,
}

#[packet(opcode = 0x1002, reply = Bytes)]
pub(crate) struct Fetch {
    pub(crate) bytes: u32,
}

/// How much of everything.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) connections: usize,
    pub(crate) stalled: usize,
    pub(crate) silent: usize,
    pub(crate) garbage: usize,
    pub(crate) calm: Duration,
    pub(crate) storm: Duration,
    /// How long a caller thinks between two calls.
    pub(crate) think: Duration,
    pub(crate) judges_times: bool,
}

impl Plan {
    fn callers(&self) -> usize {
        self.connections - self.stalled - self.silent - self.garbage
    }
}

const FULL: Plan = Plan {
    connections: 5_000,
    stalled: 200,
    silent: 200,
    garbage: 100,
    calm: Duration::from_secs(20),
    storm: Duration::from_secs(60),
    think: Duration::from_millis(1_000),
    judges_times: true,
};

const QUICK: Plan = Plan {
    connections: 300,
    stalled: 10,
    silent: 10,
    garbage: 10,
    calm: Duration::from_secs(1),
    storm: Duration::from_secs(5),
    think: Duration::from_millis(100),
    judges_times: false,
};

/// How long peers have that do not shake hands, or do not read.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);
pub(crate) const DRAIN: Duration = Duration::from_secs(5);
/// From one round of bad ones to the next. Those of the one before have been closed by then.
pub(crate) const ROUND: Duration = Duration::from_secs(6);
/// What the server may keep for each of those who do not read: an outbox, what waits for room in it, and what is written.
const FOR_EACH_DEAF: u64 = 512 << 10;
/// How much longer than that anything may take.
const GRACE: Duration = Duration::from_secs(20);

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let result = match args.split_first() {
        Some((first, _)) if first == "--server" => server::serve(),
        Some((first, rest)) if first == "--bad" => bad_of(rest),
        _ => plan(&args).and_then(run),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The process of the bad ones, with the arguments of this one behind the address.
fn bad_of(args: &[String]) -> Outcome {
    let (address, args) = args.split_first().ok_or("an address is missing")?;
    bad::serve(plan(args)?, address.parse()?)
}

fn plan(args: &[String]) -> Outcome<Plan> {
    let mut plan = if args.iter().any(|arg| arg == "--quick" || arg == "--test") { QUICK } else { FULL };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut number = || args.next().and_then(|text| text.parse().ok()).ok_or("a number is missing");
        match arg.as_str() {
            // Cargo says the last one.
            "--quick" | "--test" | "--bench" => {}
            "--secs" => plan.storm = Duration::from_secs(number()?),
            "--connections" => plan.connections = usize::try_from(number()?)?,
            other => {
                return Err(
                    format!("unknown argument {other}; there are --quick, --secs, --connections").into()
                );
            }
        }
    }
    let bad = plan.stalled + plan.silent + plan.garbage;
    if plan.connections <= bad || plan.storm.is_zero() {
        return Err(format!("there must be more than {bad} connections, and a second at least").into());
    }
    Ok(plan)
}

fn run(plan: Plan) -> Outcome {
    raise_limit();
    let mut server = Remote::start(&["--server".to_owned()])?;
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(soak(plan, &mut server))
}

async fn soak(plan: Plan, server: &mut Remote) -> Outcome {
    let address = server.greeting.parse()?;
    let mut args = vec!["--bad".to_owned(), server.greeting.clone()];
    args.extend(std::env::args().skip(1));
    // What they cost here is not what others see of them: all processes share the processor.
    let mut bad = Remote::start_behind_others(&args)?;
    println!(
        "{} connections: {} callers, {} that do not read, {} that say nothing, {} that say garbage",
        plan.connections,
        plan.callers(),
        plan.stalled,
        plan.silent,
        plan.garbage
    );
    let mut sessions = Vec::new();
    for _ in 0..plan.callers() {
        sessions.push(join(address).await?);
    }

    let calm = Seen::new()?;
    let sessions = call(sessions, plan.think, plan.calm, &calm).await?;
    show("without the bad ones", &calm, plan.calm);

    let storm = Seen::new()?;
    let bad = tokio::task::spawn_blocking(move || bad.ask("come").map(|told| (told, bad)));
    // The first third is for everything to warm up.
    let sessions = call(sessions, plan.think, plan.storm / 3, &storm).await?;
    let warm = server.ask("how is it")?;
    let sessions = call(sessions, plan.think, plan.storm * 2 / 3, &storm).await?;
    let end = server.ask("how is it")?;
    show("beside the bad ones", &storm, plan.storm);
    let (told, mut deaf) =
        tokio::time::timeout(GRACE, bad).await.map_err(|_| "a stranger was told nothing")???;
    let [rounds, silent, garbage] = told[..] else { return Err("the bad ones have failed".into()) };
    let all = |each: usize| each as u64 * rounds;
    let waiting = Instant::now();
    let mut slow = server.ask("how is it")?[3];
    while slow < all(plan.stalled) && waiting.elapsed() < GRACE {
        tokio::time::sleep(Duration::from_millis(100)).await;
        slow = server.ask("how is it")?[3];
    }
    // Their process ends when it is told anything.
    drop(deaf.ask("go"));
    drop(deaf);
    println!(
        "closed in {rounds} rounds: {slow} of {} with SlowConsumer, {silent} of {} with HandshakeTimeout, {garbage} of {} with ProtocolError",
        all(plan.stalled),
        all(plan.silent),
        all(plan.garbage)
    );
    println!("server's memory: {} KiB when it was warm, {} KiB at the end", warm[0] >> 10, end[0] >> 10);

    // Everybody goes on calling while the server shuts down.
    let stopping = Seen::new()?;
    let calling = sessions
        .iter()
        .enumerate()
        .map(|(n, session)| caller(session.clone(), n, plan.think, Arc::clone(&stopping)));
    let mut tasks = JoinSet::new();
    calling.for_each(|calling| drop(tasks.spawn(calling)));
    tokio::time::sleep(plan.think).await;
    let report = tokio::task::block_in_place(|| server.ask("stop"))?;
    let (took, left) = (Duration::from_millis(report[0]), report[2]);
    stopping.stop.store(true, Relaxed);
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    for session in &sessions {
        let reason = tokio::time::timeout(Duration::from_secs(5), session.closed()).await;
        let code = reason.map_or_else(|_| "nothing".to_owned(), |reason| format!("{:?}", reason.code));
        *reasons.entry(code).or_default() += 1;
    }
    println!(
        "shutdown under load: {took:?} of {DRAIN:?}, {left} connections left, clients were told {reasons:?}"
    );
    drop(tasks);

    let mut broken = Vec::new();
    let mut must = |holds: bool, what: &str| {
        if !holds {
            broken.push(what.to_owned());
        }
    };
    must(calm.failed.load(Relaxed) + storm.failed.load(Relaxed) == 0, "calls have failed");
    must(slow == all(plan.stalled), "not everybody who does not read was closed with SlowConsumer");
    must(silent == all(plan.silent), "not everybody who says nothing was told HandshakeTimeout");
    must(garbage == all(plan.garbage), "not everybody who says garbage was told ProtocolError");
    // In a short soak the first round is still arriving when it is called warm.
    let arriving = if plan.storm / 3 > ROUND { 0 } else { plan.stalled as u64 * FOR_EACH_DEAF };
    must(end[0] <= warm[0] + warm[0] / 10 + arriving, "memory grows");
    must(end[1] as usize == plan.callers() && end[2] == 0, "counters do not come back");
    must(left == 0 && took < DRAIN + Duration::from_secs(2), "the shutdown takes too long");
    must(reasons.get("GoingAway") == Some(&sessions.len()), "not everybody was told why the server has gone");
    let bound = calm.micros(0.99) * 3 / 2;
    must(
        !plan.judges_times || storm.micros(0.99) <= bound,
        "the others' p99 is over 1.5 times of what it was",
    );
    if broken.is_empty() { Ok(()) } else { Err(broken.join("; ").into()) }
}

pub(crate) fn raise_limit() {
    #[cfg(unix)]
    {
        use nix::sys::resource::{Resource, getrlimit, setrlimit};
        // Who is refused gets as far as the limit goes, and says then what is missing.
        let _ = getrlimit(Resource::RLIMIT_NOFILE)
            .and_then(|(_, hard)| setrlimit(Resource::RLIMIT_NOFILE, hard, hard));
    }
}
