//! Looking connections up, and sending to many.

use std::hint::black_box;

use divan::{Bencher, counter::ItemsCount};
use nalix_core::link::memory;
use nalix_server::{ConnectionId, Delivery, Group, Hub, Server, ServerHandle, packet, packet_controller};
use tokio::runtime::Runtime;

#[packet(opcode = 0x3001)]
struct Moved {
    who: u64,
    x: f32,
    y: f32,
    z: f32,
}

#[packet(opcode = 0x1001, reply = ())]
struct Nothings;

struct Nothing;

#[packet_controller]
impl Nothing {
    #[packet]
    fn nothing(&self, _: Nothings) {}
}

/// A server with connections whose drivers do not run while this thread does something else.
struct Crowd {
    runtime: Runtime,
    server: ServerHandle,
    clients: Vec<nalix_client::Session>,
    ids: Vec<ConnectionId>,
}

impl Crowd {
    fn new(n: usize) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (server, clients) = runtime.block_on(async {
            let builder = Server::builder().plaintext().no_listener().controller(Nothing);
            let server = builder.build().await.unwrap().handle();
            let mut clients = Vec::new();
            for _ in 0..n {
                let (ours, theirs) = memory::pair(64 * 1024);
                server.serve_link(theirs);
                let client = nalix_client::Client::builder("").plaintext();
                clients.push(client.connect_over(ours).await.unwrap());
            }
            while server.connection_count() < n {
                tokio::task::yield_now().await;
            }
            (server, clients)
        });
        let ids = server.connections().iter().map(nalix_server::Connection::id).collect();
        Self { runtime, server, clients, ids }
    }

    fn hub(&self) -> Hub {
        self.server.hub()
    }

    fn group(&self) -> Group {
        let group = self.hub().group("all");
        for connection in self.server.connections() {
            group.join(&connection);
        }
        group
    }

    /// Lets everything be written and read.
    fn settle(&self) {
        self.runtime.block_on(async {
            for _ in 0..4 {
                tokio::task::yield_now().await;
            }
        });
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        let _entered = self.runtime.enter();
        self.clients.clear();
    }
}

/// One operation on each of some connections in turn, by each thread; the figures are for one.
fn for_each(bencher: Bencher<'_, '_>, n: usize, f: impl Fn(&Hub, ConnectionId) + Sync) {
    let crowd = Crowd::new(n);
    let hub = crowd.hub();
    let ids: Vec<_> = crowd.ids.iter().copied().cycle().take(1_000).collect();
    bencher.counter(ItemsCount::new(ids.len())).bench(|| ids.iter().for_each(|id| f(&hub, *id)));
}

#[divan::bench(args = [10, 5_000], threads = [1, 2])]
fn contains_1000(bencher: Bencher<'_, '_>, connections: usize) {
    for_each(bencher, connections, |hub, id| assert!(hub.contains(black_box(id))));
}

#[divan::bench(args = [10, 5_000], threads = [1, 2])]
fn get_1000(bencher: Bencher<'_, '_>, connections: usize) {
    for_each(bencher, connections, |hub, id| drop(black_box(hub.get(black_box(id)))));
}

#[divan::bench(args = [10, 5_000], threads = [1, 2])]
fn with_connection_1000(bencher: Bencher<'_, '_>, connections: usize) {
    for_each(bencher, connections, |hub, id| {
        black_box(hub.with_connection(black_box(id), |connection| connection.id()));
    });
}

/// Puts a packet into the outboxes of 1,000 members, whose drivers run between two samples.
#[divan::bench(sample_size = 1)]
fn send_to_1000(bencher: Bencher<'_, '_>) {
    let crowd = Crowd::new(1_000);
    let group = crowd.group();
    let moved = Moved { who: 1, x: 1.0, y: 2.0, z: 3.0 };
    bencher
        .counter(ItemsCount::new(1_000_usize))
        .with_inputs(|| crowd.settle())
        .bench_local_values(|()| assert_eq!(group.send(&moved).queued, 1_000));
}

/// As above, each replacing what waits.
#[divan::bench(sample_size = 1)]
fn send_latest_to_1000(bencher: Bencher<'_, '_>) {
    let crowd = Crowd::new(1_000);
    let group = crowd.group().with(Delivery::Latest(1));
    let moved = Moved { who: 1, x: 1.0, y: 2.0, z: 3.0 };
    bencher
        .counter(ItemsCount::new(1_000_usize))
        .with_inputs(|| crowd.settle())
        .bench_local_values(|()| assert_eq!(group.send(&moved).queued, 1_000));
}
