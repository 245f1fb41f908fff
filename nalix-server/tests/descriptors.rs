//! A server that runs out of file descriptors, in a process of its own.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![cfg(target_os = "linux")]

mod support;

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    process::{Child, Command, Stdio},
    sync::mpsc,
    time::{Duration, Instant},
};

use nalix_client::Client;
use nalix_server::{Options, Server, packet, packet_controller};
use support::{Recorder, within};

#[packet(opcode = 0x1001, reply = u32)]
struct Hello;

struct Lab;

#[packet_controller]
impl Lab {
    #[packet]
    fn hello(&self, _: Hello) -> u32 {
        7
    }
}

/// What the child runs; it is nothing to be run by itself.
#[test]
#[ignore = "started by the other test, with few descriptors"]
fn the_server() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let recorder = Recorder::to(|line| say(&format!("{} {}", line.level, line.text)));
    tracing::subscriber::set_global_default(recorder).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut options = Options::default();
        options.handshake_timeout = Duration::from_secs(600);
        let builder = Server::builder().plaintext().tcp("127.0.0.1:0").controller(Lab).options(options);
        let server = builder.build().await.unwrap();
        say(&format!("ADDRESS {}", server.local_addr()));
        let (handle, running) = server.spawn();
        let parent = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()));
        drop(parent.await);
        handle.shutdown();
        drop(running.await);
    });
}

/// Past the capturing of the test's output.
fn say(line: &str) {
    drop(writeln!(std::io::stdout(), "{line}"));
}

struct Process {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Process {
    fn start() -> Self {
        let test = std::env::current_exe().unwrap();
        let mut child = Command::new("sh")
            .args(["-c", r#"ulimit -n 64; exec "$0" --exact the_server --ignored --nocapture"#])
            .arg(test)
            .env(CHILD, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Self { child, lines }
    }

    fn wait_for(&self, what: &str) -> String {
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left).unwrap_or_else(|_| panic!("never said: {what}"));
            if let Some(at) = line.find(what) {
                return line[at + what.len()..].trim().to_owned();
            }
        }
    }

    /// Clock ticks of processor time so far.
    fn ticks(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let fields: Vec<_> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[tokio::test]
async fn a_server_without_descriptors_waits_without_spinning_and_goes_on_when_there_are_some() {
    let server = Process::start();
    let address: SocketAddr = server.wait_for("ADDRESS ").parse().unwrap();
    let mut held: Vec<_> = (0..100).map(|_| TcpStream::connect(address).unwrap()).collect();
    let warning = server.wait_for("WARN");
    assert!(warning.contains("max_connections=65536 descriptor_limit=64"), "{warning}");
    server.wait_for(COMPLAINT);

    let (before, begun) = (server.ticks(), Instant::now());
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (ticks, seconds) = (server.ticks() - before, begun.elapsed().as_secs_f64());
    // 100 ticks a second would be one core.
    assert!((ticks as f64) < 20.0 * seconds, "{ticks} ticks in {seconds} s");
    let complaints = server.lines.try_iter().filter(|line| line.contains(COMPLAINT)).count();
    assert!((1..=3).contains(&complaints), "{complaints} complaints in {seconds} s");

    held.drain(..60);
    let client = Client::builder(format!("tcp://{address}")).no_reconnect().plaintext();
    let session = within("the connection", client.connect()).await.unwrap();
    assert_eq!(within("the call", session.request(Hello).into_future()).await, Ok(7));
}

const CHILD: &str = "NALIX_TEST_CHILD";
const COMPLAINT: &str = "ERROR";
