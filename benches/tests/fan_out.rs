//! What a packet to a thousand members costs in heap allocations, from the call to the last write: its encoding, and nothing
//! for a member.
//!
//! One test, since the allocator counts for all threads.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../src/alloc.rs"]
#[allow(dead_code, reason = "this needs the counter alone")]
mod alloc;

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll},
};

use alloc::Allocated;
use bytes::BytesMut;
use nalix_client::{Client, Session};
use nalix_core::link::{
    Link,
    memory::{self, MemoryLink},
};
use nalix_server::{Delivery, Group, Identity, Join, Server, ServerHandle, packet, packet_controller};

#[packet(opcode = 0x3001)]
struct Moved {
    who: u64,
    x: f32,
    y: f32,
    z: f32,
}

#[packet(opcode = 0x3002)]
struct Big {
    data: Vec<u8>,
}

#[packet(opcode = 0x1001, reply = ())]
struct Nothings;

struct Nothing;

#[packet_controller]
impl Nothing {
    #[packet]
    fn nothing(&self, _: Nothings) {}
}

#[derive(Default)]
struct Sink {
    /// Whether what is written is counted and dropped, so that reading it costs nothing.
    on: AtomicBool,
    writes: AtomicUsize,
}

struct SinkLink {
    link: MemoryLink,
    sink: Arc<Sink>,
}

impl Link for SinkLink {
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut BytesMut) -> Poll<io::Result<usize>> {
        self.link.poll_read(cx, buf)
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if !self.sink.on.load(Relaxed) {
            return self.link.poll_write(cx, bytes);
        }
        self.sink.writes.fetch_add(1, Relaxed);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.link.poll_close(cx)
    }
}

const MEMBERS: usize = 1_000;

struct Crowd {
    group: Group,
    sink: Arc<Sink>,
    _clients: Vec<Session>,
    _server: ServerHandle,
}

impl Crowd {
    async fn new(identity: Option<&Identity>) -> Self {
        let builder = Server::builder().no_listener().controller(Nothing);
        let builder = match identity {
            Some(identity) => builder.identity(identity.clone()),
            None => builder.plaintext(),
        };
        let server = builder.build().await.unwrap().handle();
        let sink = Arc::<Sink>::default();
        let mut clients = Vec::new();
        for _ in 0..MEMBERS {
            let (ours, theirs) = memory::pair(1 << 10);
            server.serve_link(SinkLink { link: theirs, sink: Arc::clone(&sink) });
            let client = Client::builder("");
            let client = match identity {
                Some(identity) => client.server_key(identity.public_key()),
                None => client.plaintext(),
            };
            clients.push(client.connect_over(ours).await.unwrap());
        }
        while server.connection_count() < MEMBERS {
            tokio::task::yield_now().await;
        }
        let group = server.hub().group("all");
        assert!(server.connections().iter().all(|connection| group.join(connection) == Join::Joined));
        rest().await;
        sink.on.store(true, Relaxed);
        Self { group, sink, _clients: clients, _server: server }
    }

    /// The fewest allocations of several rounds, each of which ends with the last write: what else this program does counts in
    /// some of them. Checks the number of writes.
    async fn allocations(&self, writes: usize, send: impl Fn(&Group)) -> u64 {
        let mut fewest = u64::MAX;
        for round in 0..10 {
            self.sink.writes.store(0, Relaxed);
            let before = Allocated::now();
            send(&self.group);
            rest().await;
            let after = Allocated::now();
            assert_eq!(self.sink.writes.load(Relaxed), writes, "round {round}");
            fewest = fewest.min(after.count - before.count);
        }
        fewest
    }
}

/// Lets every driver run that has something to do.
async fn rest() {
    // The runtime lets some sixty tasks run between two turns of this one.
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_packet_to_a_thousand_members_allocates_nothing_for_a_member() {
    small().await;
    large().await;
}

async fn small() {
    let identity = Identity::generate().unwrap();
    for identity in [None, Some(&identity)] {
        let crowd = Crowd::new(identity).await;
        let moved = Moved { who: 1, x: 1.0, y: 2.0, z: 3.0 };
        for delivery in [Delivery::Reliable, Delivery::Droppable, Delivery::Latest(1)] {
            let send = |group: &Group| assert_eq!(group.with(delivery).send(&moved).queued, MEMBERS);
            let allocations = crowd.allocations(MEMBERS, send).await;
            // The bytes, and the count of those who share them.
            println!("{delivery:?}: {allocations} allocations");
            assert!(allocations <= 2, "{delivery:?}: {allocations} allocations for {MEMBERS} members");
        }
        let ten = |group: &Group| (0..10).for_each(|_| assert_eq!(group.send(&moved).queued, MEMBERS));
        let allocations = crowd.allocations(MEMBERS, ten).await;
        assert!(allocations <= 20, "{allocations} allocations for ten packets");
    }
}

/// What does not fit a frame takes a few blocks whatever its length: a queue that is made when the first such message waits,
/// and a buffer for its fragments.
async fn large() {
    let crowd = Crowd::new(None).await;
    let mut counts = Vec::new();
    for len in [200_000, 400_000] {
        let big = Big { data: vec![7; len] };
        let writes = (len + 8).div_ceil(4 * 16 * 1024) * MEMBERS;
        let send = |group: &Group| assert_eq!(group.send(&big).queued, MEMBERS);
        counts.push(crowd.allocations(writes, send).await as f64 / MEMBERS as f64);
    }
    println!("{counts:?} allocations for a large packet to each member");
    assert!(counts.iter().all(|count| *count <= 6.0), "{counts:?} allocations for each member");
}
