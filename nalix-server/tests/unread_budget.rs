//! What clients that do not read take of a server's memory, over all its connections.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::time::Duration;

use bytes::Bytes;
use nalix_client::{Client, Session};
use nalix_core::{
    CloseCode, Connection,
    link::{
        faults::{Faults, FaultyLink},
        memory,
    },
    wire::to_vec,
};
use nalix_server::{Context, Delivery, HubExt, Options, Server, ServerHandle, packet, packet_controller};
use support::{RawPeer, record, request, soon, until};
use tokio::time::sleep;

#[packet(opcode = 0x1001, reply = Bytes)]
struct Echo(Bytes);

#[packet(opcode = 0x1002, reply = ())]
struct Enter;

#[packet(opcode = 0x3001)]
struct Push(Bytes);

struct Game;

#[packet_controller]
impl Game {
    #[packet]
    fn echo(&self, Echo(bytes): Echo) -> Bytes {
        bytes
    }

    #[packet]
    fn enter(&self, ctx: &Context, _: Enter) {
        ctx.hub().group("all").join(ctx);
    }
}

const PACKET: usize = 8 * 1024;
const OUTBOX: usize = 64 * 1024;

async fn server(budget: usize) -> ServerHandle {
    let mut options = Options::default().keep_alive(None).outbox(OUTBOX);
    options.stall_timeout = Duration::from_secs(60);
    let server = Server::builder().plaintext().no_listener().options(options).controller(Game);
    server.max_unread(budget).build().await.unwrap().handle()
}

fn packet(n: u32) -> Vec<u8> {
    record(&[request(n, 0x1001, &to_vec(&Echo(vec![7; PACKET].into())).unwrap())])
}

/// One that asks for `calls` echoes and reads none.
async fn deaf(server: &ServerHandle, calls: u32) -> RawPeer {
    let mut peer = RawPeer::connect_over(server, 4 * PACKET).await;
    for n in 0..calls {
        // Once the connection is closed it takes no more.
        peer.write_some(&packet(n)).await;
    }
    peer
}

fn reasons(connections: &[Connection]) -> Vec<CloseCode> {
    connections.iter().filter_map(Connection::close_reason).map(|reason| reason.code).collect()
}

/// Each had its calls wait in front of a full outbox, some megabytes of them until its `stall_timeout`, and nothing bounded all
/// together.
#[tokio::test(start_paused = true)]
async fn calls_of_clients_that_do_not_read_are_within_one_budget() {
    const BUDGET: usize = 2 << 20;
    let server = server(BUDGET).await;
    let mut peers = Vec::new();
    for _ in 0..20 {
        peers.push(deaf(&server, 100).await);
    }
    let connections = server.connections();
    assert_eq!(
        (connections.len(), server.unread_bytes()),
        (20, 0),
        "none counts that has just been written to"
    );
    sleep(Duration::from_secs(2)).await;
    let used = server.unread_bytes();
    assert!(used > BUDGET / 2 && used <= BUDGET, "{used}");
    let closed = reasons(&connections);
    assert_eq!(closed, vec![CloseCode::SlowConsumer; closed.len()]);
    // A hundred packets each.
    let left = server.connection_count();
    assert!((2..=4).contains(&left), "{left}");

    let reason = connections.iter().find_map(Connection::close_reason).unwrap();
    assert!(reason.message.contains("bytes and"), "{reason}");
    drop(peers);
    until("all are gone", || server.connection_count() == 0).await;
    assert_eq!(server.unread_bytes(), 0);
}

/// Whoever reads is not among those who are closed, however slowly it does so and however much waits for it.
#[tokio::test(start_paused = true)]
async fn a_slow_client_stays_while_there_is_no_room_for_those_that_do_not_read() {
    let server = server(0).await;
    let faults = Faults::new(1).bandwidth(64 * 1024).capacity(4 * 1024);
    let (ours, theirs) = memory::pair(4 * 1024);
    server.serve_link(FaultyLink::new(theirs, faults.clone()));
    let slow: Session = Client::builder("")
        .plaintext()
        .options(Options::default().keep_alive(None))
        .connect_over(FaultyLink::new(ours, faults))
        .await
        .unwrap();
    let calls: Vec<_> = (0..60)
        .map(|_| {
            let slow = slow.clone();
            tokio::spawn(async move { slow.request(Echo(vec![7; PACKET].into())).await })
        })
        .collect();
    let peer = deaf(&server, 100).await;
    for call in calls {
        assert_eq!(soon(call).await.unwrap().unwrap().len(), PACKET);
    }
    assert_eq!(server.connection_count(), 1, "the slow one");
    assert_eq!(server.unread_bytes(), 0);
    drop(peer);
}

/// Who closes it must be able to say what the peer has missed.
#[tokio::test(start_paused = true)]
async fn the_reason_for_a_client_that_reads_nothing_counts_what_it_has_missed() {
    let server = server(1 << 20).await;
    let mut peer = RawPeer::connect_over(&server, PACKET).await;
    peer.send(&[request(0, 0x1002, &[])]).await;
    peer.reply(0).await;
    let connection = server.connections().pop().unwrap();
    let group = server.hub().group("all").with(Delivery::Droppable);
    let packet = Push(vec![7; PACKET].into());
    for _ in 0..100 {
        group.send(&packet);
        tokio::task::yield_now().await;
    }
    let left_out = connection.left_out();
    assert!(left_out > 80, "{left_out}");
    let reason = soon(connection.closed()).await;
    assert_eq!(reason.code, CloseCode::SlowConsumer);
    assert!(reason.message.contains(&format!("{left_out} packets were left out")), "{reason}");
    drop(peer);
}
