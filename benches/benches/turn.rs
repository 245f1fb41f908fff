//! What one call costs both sides with neither kernel nor scheduler: the drivers are polled by hand, over a link that is
//! two buffers. Prints nanoseconds per call, which is all that nalix adds to what the system and the runtime cost.

use std::{
    future::{Future, IntoFuture},
    hint::black_box,
    io,
    pin::{Pin, pin},
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
    time::Instant,
};

use bytes::{Buf, Bytes, BytesMut};
use nalix_core::{
    Connection,
    connection::{Driver, Options, Serving, accept, connect},
    controller::Router,
    handshake::{ClientSecurity, Contracts, ServerSecurity},
    link::Link,
    packet, packet_controller,
};

#[packet(opcode = 0x1003, reply = Bytes)]
struct Echo {
    data: Bytes,
}

#[packet(opcode = 0x1002, reply = i32)]
struct Sum {
    a: i32,
    b: i32,
}

struct Functions;

#[packet_controller]
impl Functions {
    #[packet]
    fn echo(&self, echo: Echo) -> Bytes {
        echo.data
    }

    #[packet]
    fn sum(&self, sum: Sum) -> i32 {
        sum.a.wrapping_add(sum.b)
    }
}

type Pipe = Arc<Mutex<BytesMut>>;

/// One end of two pipes.
struct Buffers {
    read: Pipe,
    write: Pipe,
}

impl Link for Buffers {
    fn poll_read(&mut self, _: &mut Context<'_>, buf: &mut BytesMut) -> Poll<io::Result<usize>> {
        let mut pipe = self.read.lock().expect("nobody panics with it");
        if pipe.is_empty() {
            return Poll::Pending;
        }
        let n = pipe.len();
        buf.extend_from_slice(&pipe);
        pipe.advance(n);
        Poll::Ready(Ok(n))
    }

    fn poll_write(&mut self, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.write.lock().expect("nobody panics with it").extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_close(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

struct Side {
    connection: Connection,
    driver: Driver<Buffers>,
}

impl Side {
    fn turn(&mut self) {
        let polled = Pin::new(&mut self.driver).poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending(), "the connection has ended");
    }
}

fn pair() -> (Side, Side) {
    let (up, down) = (Pipe::default(), Pipe::default());
    let client = Buffers { read: Arc::clone(&down), write: Arc::clone(&up) };
    let server = Buffers { read: up, write: down };
    let options = Options::default();
    let mut router = Router::builder();
    router.add(Functions);
    let router = router.build().expect("one controller");
    let mut connecting =
        pin!(connect(client, Contracts::from_packets([]), &ClientSecurity::Plaintext, &options));
    let mut accepting =
        pin!(accept(server, Contracts::from_packets([]), &ServerSecurity::Plaintext, &options));
    let cx = &mut Context::from_waker(Waker::noop());
    let (mut connected, mut accepted) = (None, None);
    while connected.is_none() || accepted.is_none() {
        if connected.is_none()
            && let Poll::Ready(done) = connecting.as_mut().poll(cx)
        {
            connected = Some(done.expect("a handshake"));
        }
        if accepted.is_none()
            && let Poll::Ready(done) = accepting.as_mut().poll(cx)
        {
            accepted = Some(done.expect("a handshake"));
        }
    }
    let side = |established, router| {
        let (connection, driver) = Driver::new(established, Serving::from(router), &options);
        Side { connection, driver }
    };
    (side(connected.expect("done"), Router::empty()), side(accepted.expect("done"), router))
}

/// A client and a server whose hooks have run.
fn connected() -> (Side, Side) {
    let (mut client, mut server) = pair();
    client.turn();
    server.turn();
    client.turn();
    (client, server)
}

/// Nanoseconds per call, with one call at a time.
fn echo(size: usize, calls: u32) -> f64 {
    let (mut client, mut server) = connected();
    let data = Bytes::from(vec![7; size]);
    let cx = &mut Context::from_waker(Waker::noop());
    let started = Instant::now();
    for _ in 0..calls {
        let mut call = pin!(client.connection.request(Echo { data: data.clone() }).into_future());
        assert!(call.as_mut().poll(cx).is_pending());
        client.turn();
        server.turn();
        client.turn();
        match call.as_mut().poll(cx) {
            Poll::Ready(reply) => drop(black_box(reply.expect("an answer"))),
            Poll::Pending => panic!("no answer"),
        }
    }
    started.elapsed().as_nanos() as f64 / f64::from(calls)
}

/// Nanoseconds per call, with one call at a time on each of so many connections in turn: what each touches has left the
/// nearest caches when it comes up again, as it has on a real server.
fn echo_around(size: usize, connections: usize, calls: u32) -> f64 {
    let mut pairs: Vec<_> = (0..connections).map(|_| connected()).collect();
    let data = Bytes::from(vec![7; size]);
    let cx = &mut Context::from_waker(Waker::noop());
    let rounds = calls / connections as u32;
    let started = Instant::now();
    for _ in 0..rounds {
        let mut all: Vec<_> = pairs
            .iter()
            .map(|(client, _)| client.connection.request(Echo { data: data.clone() }).into_future())
            .collect();
        for (call, (client, _)) in all.iter_mut().zip(&mut pairs) {
            assert!(Pin::new(call).poll(cx).is_pending());
            client.turn();
        }
        for (_, server) in &mut pairs {
            server.turn();
        }
        for (call, (client, _)) in all.iter_mut().zip(&mut pairs) {
            client.turn();
            match Pin::new(call).poll(cx) {
                Poll::Ready(reply) => drop(black_box(reply.expect("an answer"))),
                Poll::Pending => panic!("no answer"),
            }
        }
    }
    started.elapsed().as_nanos() as f64 / f64::from(rounds * connections as u32)
}

/// Nanoseconds per call, with `IN_FLIGHT` calls that go together.
fn sum(calls: u32) -> f64 {
    let (mut client, mut server) = connected();
    let cx = &mut Context::from_waker(Waker::noop());
    let rounds = calls / IN_FLIGHT as u32;
    let started = Instant::now();
    for round in 0..rounds as i32 {
        let mut all: [_; IN_FLIGHT] =
            std::array::from_fn(|i| client.connection.request(Sum { a: i as i32, b: round }).into_future());
        for call in &mut all {
            assert!(Pin::new(call).poll(cx).is_pending());
        }
        // The first turn of a driver that is woken for output alone lets other callers run first.
        client.turn();
        client.turn();
        server.turn();
        client.turn();
        for (call, i) in all.iter_mut().zip(0..) {
            match Pin::new(call).poll(cx) {
                Poll::Ready(sum) => assert_eq!(sum.expect("an answer"), i + round),
                Poll::Pending => panic!("no answer"),
            }
        }
    }
    started.elapsed().as_nanos() as f64 / f64::from(rounds * IN_FLIGHT as u32)
}

const IN_FLIGHT: usize = 100;

fn main() {
    let quick = std::env::args().any(|arg| arg == "--quick" || arg == "--test");
    let (calls, runs) = if quick { (1_000, 1) } else { (100_000, 30) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let _entered = runtime.enter();
    let wanted = |name: &str| {
        let filters: Vec<_> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
        filters.is_empty() || filters.iter().any(|filter| name.contains(filter.as_str()))
    };
    let show = |name: &str, f: &mut dyn FnMut() -> f64| {
        if wanted(name) {
            let best = (0..runs).map(|_| f()).fold(f64::MAX, f64::min);
            println!("{name}: {best:.0} ns per call");
        }
    };
    for size in [32, 1024] {
        show(&format!("echo of {size} B, one at a time"), &mut || echo(size, calls));
    }
    for size in [32, 1024] {
        for connections in [64, 256] {
            let name = format!("echo of {size} B, one at a time on each of {connections} connections");
            show(&name, &mut || echo_around(size, connections, calls));
        }
    }
    show(&format!("sum, {IN_FLIGHT} at a time"), &mut || sum(calls));
}
