//! Thousands of connections, some of which behave badly: whether the others notice, whether memory stays flat, whether everyone
//! bad is closed with its code, and whether a shutdown under that load reaches everybody in time.
//!
//!     cargo bench -p nalix-benches --bench soak              5,000 connections for a minute, after 20 s without the bad ones
//!     cargo bench -p nalix-benches --bench soak -- --quick   300 connections for some seconds; times are shown and not judged
//!
//! The server is a process of its own. Ends with an error if one of the bounds is broken.

use std::{
    collections::BTreeMap,
    error::Error,
    io::{BufRead, BufReader, Write},
    net::SocketAddr,
    process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};

use bytes::{Bytes, BytesMut};
use hdrhistogram::Histogram;
use nalix_client::{Client, CloseCode, Session};
use nalix_core::{
    connection::{Driver, Options, Serving, connect},
    controller::Router,
    handshake::{self, ClientSecurity, Contracts},
    link::{Link, tcp},
    packet, packet_controller,
    record::RecordKind,
    session::Inbound,
};
use nalix_server::{HubEvent, Server};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
};

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

#[packet(opcode = 0x1001, reply = Bytes)]
struct Echo {
    data: Bytes,
}

struct Game;

#[packet_controller]
impl Game {
    #[packet]
    fn echo(&self, echo: Echo) -> Bytes {
        echo.data
    }
}

/// How much of everything.
#[derive(Debug, Clone, Copy)]
struct Plan {
    connections: usize,
    stalled: usize,
    silent: usize,
    garbage: usize,
    calm: Duration,
    storm: Duration,
    /// How long a caller thinks between two calls.
    think: Duration,
    judges_times: bool,
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
const PATIENCE: Duration = Duration::from_secs(2);
const DRAIN: Duration = Duration::from_secs(5);
/// How much longer than that anything may take.
const GRACE: Duration = Duration::from_secs(20);

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let result = if args.iter().any(|arg| arg == "--server") {
        serve()
    } else {
        run(if args.iter().any(|arg| arg == "--quick" || arg == "--test") { QUICK } else { FULL })
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

// The server's process: says where it listens, then answers a line with a line.

fn serve() -> Outcome {
    raise_limit();
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
        let options = Options::default().handshake_timeout(PATIENCE).stall_timeout(PATIENCE).outbox(64 << 10);
        let server = Server::builder()
            .plaintext()
            .options(options)
            .max_connections(20_000)
            .drain_timeout(DRAIN)
            .controller(Game)
            .tcp("127.0.0.1:0")
            .build()
            .await?;
        println!("{}", server.local_addr());
        let (handle, running) = server.spawn();
        let ended: Arc<Mutex<BTreeMap<String, usize>>> = Arc::default();
        let mut events = handle.hub().watch(100_000);
        let counting = Arc::clone(&ended);
        tokio::spawn(async move {
            loop {
                if let HubEvent::Ended { reason, .. } = events.next().await {
                    let code =
                        reason.map_or_else(|| "none".to_owned(), |reason| format!("{:?}", reason.code));
                    *counting.lock().expect("whole").entry(code).or_default() += 1;
                }
            }
        });
        let mut lines = tokio::io::AsyncBufReadExt::lines(tokio::io::BufReader::new(tokio::io::stdin()));
        while let Some(line) = lines.next_line().await? {
            if line == "stop" {
                break;
            }
            let slow = ended.lock().expect("whole").get("SlowConsumer").copied().unwrap_or_default();
            println!("{} {} {} {slow}", resident(), handle.connection_count(), handle.queued_bytes());
        }
        let began = Instant::now();
        handle.shutdown();
        let report = running.await??;
        println!("{} {} {}", began.elapsed().as_millis(), report.forced, handle.connection_count());
        Ok(())
    })
}

struct Remote {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    address: SocketAddr,
}

impl Drop for Remote {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Remote {
    fn start() -> Outcome<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("--server")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take().ok_or("no input")?;
        let mut output = BufReader::new(child.stdout.take().ok_or("no output")?);
        let mut line = String::new();
        output.read_line(&mut line)?;
        Ok(Self { child, input, output, address: line.trim().parse()? })
    }

    /// Numbers that the server says when it is told this.
    fn ask(&mut self, what: &str) -> Outcome<Vec<u64>> {
        writeln!(self.input, "{what}")?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        line.split_whitespace().map(|number| Ok(number.parse()?)).collect()
    }
}

// The clients.

/// What all callers have seen.
struct Seen {
    times: Mutex<Histogram<u64>>,
    calls: AtomicU64,
    failed: AtomicU64,
    stop: AtomicBool,
}

impl Seen {
    fn new() -> Outcome<Arc<Self>> {
        Ok(Arc::new(Self {
            times: Mutex::new(Histogram::new_with_bounds(1, 60_000_000, 3)?),
            calls: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        }))
    }

    fn micros(&self, quantile: f64) -> u64 {
        self.times.lock().expect("whole").value_at_quantile(quantile)
    }
}

async fn join(address: SocketAddr) -> Outcome<Session> {
    Ok(Client::builder(format!("tcp://{address}")).plaintext().no_reconnect().connect().await?)
}

/// Calls, thinks, and calls again. Returns its session, which is open.
async fn caller(session: Session, index: usize, think: Duration, seen: Arc<Seen>) -> Session {
    let data = Bytes::from_static(&[7; 64]);
    // Not all at once.
    tokio::time::sleep(think * (index % 1_000) as u32 / 1_000).await;
    while !seen.stop.load(Relaxed) {
        let began = Instant::now();
        match session.request(Echo { data: data.clone() }).await {
            Ok(_) => {
                let took = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
                seen.times.lock().expect("whole").saturating_record(took);
                seen.calls.fetch_add(1, Relaxed);
            }
            Err(_) => drop(seen.failed.fetch_add(1, Relaxed)),
        }
        tokio::time::sleep(think).await;
    }
    session
}

/// Shakes hands, asks for much, and reads none of it.
struct Deaf<L> {
    link: L,
    hears: Arc<AtomicBool>,
}

impl<L: Link> Link for Deaf<L> {
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut BytesMut) -> Poll<std::io::Result<usize>> {
        if self.hears.load(Relaxed) { self.link.poll_read(cx, buf) } else { Poll::Pending }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        self.link.poll_write(cx, bytes)
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        self.link.poll_close(cx)
    }
}

async fn stalled(address: SocketAddr) -> Outcome {
    let hears = Arc::new(AtomicBool::new(true));
    let link = Deaf { link: tcp::connect(&[address]).await?, hears: Arc::clone(&hears) };
    let options = Options::default().resume_log(0).keep_alive(None).request_timeout(None);
    let contracts = Contracts::default();
    let established = connect(link, contracts, &ClientSecurity::Plaintext, &options).await?;
    hears.store(false, Relaxed);
    let (connection, driver) = Driver::new(established, Serving::from(Router::empty()), &options);
    let data = Bytes::from(vec![7; 16_000]);
    let asking = async {
        let mut all = JoinSet::new();
        for _ in 0..512 {
            let (connection, data) = (connection.clone(), data.clone());
            all.spawn(async move { drop(connection.request(Echo { data }).await) });
        }
        while all.join_next().await.is_some() {}
    };
    // Until the server hangs up.
    tokio::join!(driver, asking);
    Ok(())
}

/// Says this instead of a hello, and returns the code that it is told.
async fn stranger(address: SocketAddr, says: &[u8]) -> Outcome<Option<CloseCode>> {
    let mut stream = TcpStream::connect(address).await?;
    // It may be turned away before it has said everything.
    drop(stream.write_all(says).await);
    let mut inbound = Inbound::new(handshake::MAX_HELLO);
    loop {
        if let Ok(Some(record)) = inbound.next_record()
            && record.kind == RecordKind::Abort
        {
            return Ok(Some(handshake::read_abort(&record.body).code));
        }
        if !matches!(stream.read_buf(inbound.buffer()).await, Ok(n) if n > 0) {
            return Ok(None);
        }
    }
}

fn run(plan: Plan) -> Outcome {
    raise_limit();
    let mut server = Remote::start()?;
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(soak(plan, &mut server))
}

async fn soak(plan: Plan, server: &mut Remote) -> Outcome {
    let address = server.address;
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
    let bad = tokio::spawn(bad(plan, address));
    // The first third is for everything to warm up.
    let sessions = call(sessions, plan.think, plan.storm / 3, &storm).await?;
    let warm = server.ask("how is it")?;
    let sessions = call(sessions, plan.think, plan.storm * 2 / 3, &storm).await?;
    let end = server.ask("how is it")?;
    show("beside the bad ones", &storm, plan.storm);
    let (told, deaf) =
        tokio::time::timeout(GRACE, bad).await.map_err(|_| "a stranger was told nothing")???;
    let waiting = Instant::now();
    let mut slow = server.ask("how is it")?[3];
    while (slow as usize) < plan.stalled && waiting.elapsed() < GRACE {
        tokio::time::sleep(Duration::from_millis(100)).await;
        slow = server.ask("how is it")?[3];
    }
    drop(deaf);
    println!(
        "closed: {slow} of {} with SlowConsumer, {} of {} with HandshakeTimeout, {} of {} with ProtocolError",
        plan.stalled, told.silent, plan.silent, told.garbage, plan.garbage
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
    must(slow as usize == plan.stalled, "not everybody who does not read was closed with SlowConsumer");
    must(told.silent == plan.silent, "not everybody who says nothing was told HandshakeTimeout");
    must(told.garbage == plan.garbage, "not everybody who says garbage was told ProtocolError");
    must(end[0] <= warm[0] + warm[0] / 10, "memory grows");
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

async fn call(
    sessions: Vec<Session>,
    think: Duration,
    time: Duration,
    seen: &Arc<Seen>,
) -> Outcome<Vec<Session>> {
    seen.stop.store(false, Relaxed);
    let mut tasks = JoinSet::new();
    for (index, session) in sessions.into_iter().enumerate() {
        tasks.spawn(caller(session, index, think, Arc::clone(seen)));
    }
    tokio::time::sleep(time).await;
    seen.stop.store(true, Relaxed);
    Ok(tasks.join_all().await)
}

fn show(when: &str, seen: &Seen, time: Duration) {
    let rate = seen.calls.load(Relaxed) as f64 / time.as_secs_f64();
    println!(
        "{when}: {rate:.0} calls/s, p50 {} us, p99 {} us, p99.9 {} us, {} failed",
        seen.micros(0.5),
        seen.micros(0.99),
        seen.micros(0.999),
        seen.failed.load(Relaxed)
    );
}

/// How many were told what they should be.
struct Told {
    silent: usize,
    garbage: usize,
}

async fn bad(plan: Plan, address: SocketAddr) -> Outcome<(Told, JoinSet<Outcome>)> {
    let mut deaf = JoinSet::new();
    for _ in 0..plan.stalled {
        deaf.spawn(stalled(address));
    }
    let mut strangers = JoinSet::new();
    for n in 0..plan.silent + plan.garbage {
        let (says, expected): (&[u8], _) = if n < plan.silent {
            (b"", CloseCode::HandshakeTimeout)
        } else {
            (b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n", CloseCode::ProtocolError)
        };
        strangers.spawn(async move {
            Ok::<_, Box<dyn Error + Send + Sync>>((stranger(address, says).await?, expected))
        });
    }
    let mut told = Told { silent: 0, garbage: 0 };
    while let Some(done) = strangers.join_next().await {
        let (code, expected) = done??;
        if code == Some(expected) {
            match expected {
                CloseCode::HandshakeTimeout => told.silent += 1,
                _ => told.garbage += 1,
            }
        }
    }
    Ok((told, deaf))
}

fn raise_limit() {
    #[cfg(unix)]
    {
        use nix::sys::resource::{Resource, getrlimit, setrlimit};
        // Who is refused gets as far as the limit goes, and says then what is missing.
        let _ = getrlimit(Resource::RLIMIT_NOFILE)
            .and_then(|(_, hard)| setrlimit(Resource::RLIMIT_NOFILE, hard, hard));
    }
}

/// In bytes; 0 where that is not known.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap_or_default() * 1024
}
