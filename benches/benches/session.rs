//! What a call of a session costs over one of its connection: the same calls by both, in turns, over one in-memory link.
//! Prints nanoseconds per call, client and server together.

use std::{
    future::{IntoFuture, poll_fn},
    hint::black_box,
    pin::Pin,
    task::Poll,
    time::Instant,
};

use nalix_client::{Client, Connection, NoError, RequestError, Session, link::memory, packet};
use nalix_server::{Server, packet_controller};

#[packet(opcode = 0x1002, reply = i32)]
struct Sum {
    a: i32,
    b: i32,
}

struct Functions;

#[packet_controller]
impl Functions {
    #[packet]
    fn sum(&self, sum: Sum) -> i32 {
        sum.a.wrapping_add(sum.b)
    }
}

/// Nanoseconds per call, with so many calls that go together.
async fn calls<F>(in_flight: usize, rounds: usize, mut call: impl FnMut(Sum) -> F) -> f64
where
    F: Future<Output = Result<i32, RequestError<NoError>>> + Unpin,
{
    let started = Instant::now();
    for round in 0..rounds as i32 {
        let mut all: Vec<_> = (0..in_flight as i32).map(|i| Some(call(Sum { a: i, b: round }))).collect();
        poll_fn(|cx| {
            let mut open = false;
            for slot in &mut all {
                if let Some(call) = slot {
                    match Pin::new(call).poll(cx) {
                        Poll::Ready(sum) => {
                            black_box(sum.expect("an answer"));
                            *slot = None;
                        }
                        Poll::Pending => open = true,
                    }
                }
            }
            if open { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
    }
    started.elapsed().as_nanos() as f64 / (rounds * in_flight) as f64
}

async fn connect() -> Session {
    let server = Server::builder().plaintext().no_listener().controller(Functions).build().await;
    let (handle, _) = server.expect("a server").spawn();
    let dial = move |_: &str| {
        let (ours, theirs) = memory::pair(1 << 20);
        handle.serve_link(theirs);
        std::future::ready(Ok(ours))
    };
    Client::builder("memory").plaintext().dialer(dial).connect().await.expect("a connection")
}

async fn compare(in_flight: usize, rounds: usize, runs: usize) {
    let session = connect().await;
    let connection: Connection = session.connection();
    let (mut by_connection, mut by_session) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        by_connection.push(calls(in_flight, rounds, |sum| connection.request(sum).into_future()).await);
        by_session.push(calls(in_flight, rounds, |sum| session.request(sum).into_future()).await);
    }
    by_connection.sort_by(f64::total_cmp);
    by_session.sort_by(f64::total_cmp);
    println!(
        "{in_flight:>3} at a time: connection {:.0} (best) {:.0} (median), session {:.0} (best) {:.0} (median) ns per call",
        by_connection[0],
        by_connection[runs / 2],
        by_session[0],
        by_session[runs / 2],
    );
}

fn main() {
    let quick = std::env::args().any(|arg| arg == "--quick" || arg == "--test");
    let (calls, runs) = if quick { (1_000, 1) } else { (20_000, 51) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    for in_flight in [1, 100] {
        runtime.block_on(compare(in_flight, calls / in_flight, runs));
    }
}
