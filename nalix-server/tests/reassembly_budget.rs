//! What large messages take of a server's memory, over all its connections.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use bytes::Bytes;
use nalix_client::Client;
use nalix_core::{
    CallId, Connection,
    frame::{FRAGMENT, FrameKind, Head},
    link::memory,
    session::MemoryBudget,
    wire::to_vec,
};
use nalix_server::{Code, Context, Server, ServerHandle, Status, packet, packet_controller};
use support::{Guard, Live, RawPeer, cancel, frame, large_request, record, soon, until, within};
use tokio::sync::Semaphore;

#[packet(opcode = 0x1001, reply = u64)]
struct Measure(Bytes);

/// Answered when the test says so, or not at all.
#[packet(opcode = 0x1002, reply = ())]
struct Hold(Bytes);

#[packet(opcode = 0x1003, reply = ())]
struct Panic(Bytes);

/// Asks the client for so many bytes.
#[packet(opcode = 0x1004, reply = u64)]
struct AskBack(u32);

#[packet(opcode = 0x1005, reply = Bytes)]
struct Give(u32);

#[packet(opcode = 0x3001)]
struct Keep(Bytes);

#[derive(Clone)]
struct Store {
    holding: Live,
    kept: Live,
    go: std::sync::Arc<Semaphore>,
}

impl Default for Store {
    fn default() -> Self {
        Self { holding: Live::default(), kept: Live::default(), go: Semaphore::new(0).into() }
    }
}

#[packet_controller]
impl Store {
    #[packet]
    fn measure(&self, Measure(bytes): Measure) -> u64 {
        bytes.len() as u64
    }

    #[packet(concurrent)]
    async fn hold(&self, _: Hold) {
        let _guard: Guard = self.holding.enter();
        self.go.acquire().await.unwrap().forget();
    }

    #[packet]
    fn panic(&self, _: Panic) {
        panic!("on purpose");
    }

    #[packet(concurrent)]
    async fn ask_back(&self, ctx: &Context, AskBack(len): AskBack) -> Result<u64, Status> {
        let given = ctx.request(Give(len)).await;
        given.map(|bytes| bytes.len() as u64).map_err(|error| Status::new(error.code().unwrap(), ""))
    }

    #[packet]
    fn keep(&self, _: Keep) {
        drop(self.kept.enter());
    }
}

struct Answers;

#[packet_controller]
impl Answers {
    #[packet]
    fn give(&self, Give(len): Give) -> Bytes {
        vec![7; len as usize].into()
    }
}

async fn server(store: &Store, budget: usize) -> ServerHandle {
    let server = Server::builder().plaintext().no_listener().controller(store.clone());
    server.max_reassembly(budget).build().await.unwrap().handle()
}

async fn session(server: &ServerHandle) -> nalix_client::Session {
    let (ours, theirs) = memory::pair(1 << 20);
    server.serve_link(theirs);
    Client::builder("").plaintext().controller(Answers).connect_over(ours).await.unwrap()
}

fn some(len: usize) -> Bytes {
    vec![7; len].into()
}

/// The records of a request of `fragments` whole fragments and a byte, of opcode 0x1001.
fn measured(fragments: usize) -> Vec<u8> {
    // Three bytes say how many the others are.
    large_request(0, 0x1001, &to_vec(&Measure(some(fragments * FRAGMENT - 3 + 1))).unwrap())
}

/// Where the records of `n` fragments end.
fn cut(bytes: &[u8], n: usize) -> usize {
    let mut at = 0;
    for _ in 0..n {
        at += 4 + u32::from_le_bytes([bytes[at + 1], bytes[at + 2], bytes[at + 3], 0]) as usize;
    }
    at
}

#[tokio::test(start_paused = true)]
async fn half_sent_messages_of_many_connections_cannot_pass_the_budget() {
    let store = Store::default();
    let budget = 20 * FRAGMENT;
    let server = server(&store, budget).await;
    let message = measured(8);
    let half = cut(&message, 4);
    let mut peers = Vec::new();
    for _ in 0..40 {
        let mut peer = RawPeer::connect(&server).await;
        peer.write(&message[..half]).await;
        // The link is read in order, so what has come before is in hand when this is answered.
        peer.send(&[frame(Head::plain(FrameKind::Ping), b"")]).await;
        let answer = peer.frame().await.unwrap();
        let refused = answer.kind == FrameKind::Error;
        if refused {
            let status = support::status(&answer.payload);
            assert_eq!((status.code, status.is_retryable()), (Code::ResourceExhausted, true), "{status:?}");
            assert_eq!(peer.frame().await.unwrap().kind, FrameKind::Pong);
        } else {
            assert_eq!(answer.kind, FrameKind::Pong);
        }
        assert!(server.reassembly_bytes() <= budget, "{}", server.reassembly_bytes());
        let end = server.connections().into_iter().max_by_key(Connection::id).unwrap();
        peers.push((peer, refused, end));
    }
    let taken = peers.iter().filter(|(_, refused, _)| !refused).count();
    assert_eq!((taken, server.reassembly_bytes()), (5, budget), "four fragments of each");

    // Those that are refused live on: the rest is skipped, and small calls are served.
    for (peer, refused, _) in &mut peers {
        if *refused {
            peer.write(&message[half..]).await;
            peer.send(&[support::request(1, 0x1001, &to_vec(&Measure(some(5))).unwrap())]).await;
            assert_eq!(peer.reply(1).await, to_vec(&5u64).unwrap());
        }
    }
    // Those that go away leave room, however they go.
    let mut waiting = peers.pop().unwrap().0;
    for (n, (mut peer, _, end)) in peers.into_iter().filter(|(_, refused, _)| !refused).enumerate() {
        let before = server.reassembly_bytes();
        match n {
            // Broken off, closed, ended with an error, given up, finished.
            0 => drop(peer),
            1 => end.close(),
            2 => peer.write(&record(&[vec![0, 0, 0]])).await,
            3 => peer.send(&[frame(Head::of_call(FrameKind::Continue, CallId::new(2)), b"")]).await,
            _ => peer.write(&message[half..]).await,
        }
        until("its part is free", || server.reassembly_bytes() == before - 4 * FRAGMENT).await;
    }
    assert_eq!(server.reassembly_bytes(), 0);
    waiting.write(&message).await;
    assert_eq!(waiting.reply(0).await, to_vec(&((8 * FRAGMENT - 2) as u64)).unwrap());
    until("nothing is left", || server.reassembly_bytes() == 0).await;
}

/// Who announces much and sends little keeps nobody out.
#[tokio::test(start_paused = true)]
async fn what_is_announced_and_not_sent_takes_no_room() {
    let store = Store::default();
    let server = server(&store, 16 << 20).await;
    let message = measured(1_000);
    let mut peers = Vec::new();
    for _ in 0..100 {
        let mut peer = RawPeer::connect(&server).await;
        peer.write(&message[..cut(&message, 1)]).await;
        peer.ping().await;
        peers.push(peer);
    }
    assert_eq!(server.reassembly_bytes(), 100 * FRAGMENT);
    let session = session(&server).await;
    assert_eq!(session.request(Measure(some(10 << 20))).await, Ok(10 << 20));
    drop(peers);
    until("nothing is left", || server.reassembly_bytes() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn packets_count_until_their_handlers_are_done_however_that_comes() {
    let store = Store::default();
    let server = server(&store, 200_000).await;
    let session = session(&server).await;
    for how in 0..5 {
        let hold = {
            let session = session.clone();
            tokio::spawn(async move { session.request(Hold(some(150_000))).no_timeout().await })
        };
        within("it is held", store.holding.is(1)).await;
        assert_eq!(server.reassembly_bytes(), 150_003);
        let refused = session.request(Measure(some(60_000))).await.unwrap_err();
        assert_eq!((refused.code(), refused.is_retryable()), (Some(Code::ResourceExhausted), true));
        session.send(&Keep(some(60_000))).await.unwrap();
        assert_eq!(session.request(Measure(some(5))).await, Ok(5));
        match how {
            0 => store.go.add_permits(1),
            1 => hold.abort(),
            2 => assert!(session.request(Panic(some(20_000))).await.is_err()),
            _ => {
                // A raw peer that holds the rest and goes, or cancels.
                let mut peer = RawPeer::connect(&server).await;
                peer.write(&large_request(3, 0x1002, &to_vec(&Hold(some(40_000))).unwrap())).await;
                within("both are held", store.holding.is(2)).await;
                assert_eq!(server.reassembly_bytes(), 190_006);
                if how == 3 {
                    peer.send(&[cancel(3)]).await;
                    peer.status(3).await;
                } else {
                    drop(peer);
                }
                within("one is left", store.holding.is(1)).await;
                until("its part is free", || server.reassembly_bytes() == 150_003).await;
            }
        }
        if how > 1 {
            until("the others are free", || server.reassembly_bytes() == 150_003).await;
            store.go.add_permits(1);
        }
        within("none is held", store.holding.is(0)).await;
        until("nothing is left", || server.reassembly_bytes() == 0).await;
        drop(hold.await);
    }
    assert_eq!(store.kept.entered(), 0);
    session.send(&Keep(some(60_000))).await.unwrap();
    within("there is room again", store.kept.has_entered(1)).await;
    until("nothing is left", || server.reassembly_bytes() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn answers_to_the_server_count_too() {
    let store = Store::default();
    let server = server(&store, 200_000).await;
    let session = session(&server).await;
    let hold = {
        let session = session.clone();
        tokio::spawn(async move { session.request(Hold(some(150_000))).no_timeout().await })
    };
    within("it is held", store.holding.is(1)).await;
    assert_eq!(session.request(AskBack(60_000)).await.unwrap_err().code(), Some(Code::ResourceExhausted));
    store.go.add_permits(1);
    hold.await.unwrap().unwrap();
    assert_eq!(session.request(AskBack(60_000)).await, Ok(60_000));
    until("nothing is left", || server.reassembly_bytes() == 0).await;
}

/// There is no use in another try with what could never be taken.
#[tokio::test(start_paused = true)]
async fn what_is_larger_than_all_of_it_is_refused_for_good() {
    let store = Store::default();
    for budget in [0, 100_000] {
        let server = server(&store, budget).await;
        let session = session(&server).await;
        let refused = session.request(Measure(some(100_000))).await.unwrap_err();
        assert_eq!((refused.code(), refused.is_retryable()), (Some(Code::ResourceExhausted), false));
        let fits = session.request(Measure(some(99_997))).await;
        assert_eq!(fits.ok(), (budget > 0).then_some(99_997));
        assert_eq!(session.request(Measure(some(FRAGMENT - 3))).await, Ok(FRAGMENT as u64 - 3));
    }
    assert_eq!(MemoryBudget::new(7).limit(), 7);
}

#[tokio::test]
async fn over_real_sockets_nothing_is_left_when_links_are_cut() {
    use tokio::{io::AsyncWriteExt, net::TcpStream};
    let store = Store::default();
    let builder = Server::builder().plaintext().tcp("127.0.0.1:0").controller(store.clone());
    let server = builder.max_reassembly(1 << 20).build().await.unwrap();
    let (address, (handle, running)) = (server.local_addr(), server.spawn());
    let message = measured(20);
    let mut links = Vec::new();
    for n in 1..=5 {
        let mut link = TcpStream::connect(address).await.unwrap();
        link.write_all(&RawPeer::hello()).await.unwrap();
        link.write_all(&[]).await.unwrap();
        soon(async {
            while handle.connection_count() < n {
                tokio::task::yield_now().await;
            }
        })
        .await;
        link.write_all(&message[..cut(&message, 10)]).await.unwrap();
        links.push(link);
    }
    soon(async {
        while handle.reassembly_bytes() < 10 * 5 * FRAGMENT {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(handle.reassembly_bytes() <= 1 << 20);
    drop(links);
    soon(async {
        while handle.reassembly_bytes() > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    handle.shutdown();
    running.await.unwrap().unwrap();
}
