//! What is sent to a group between two flushes is one write to each member.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::{Context, Poll},
};

use bytes::BytesMut;
use nalix_client::{Client, Session};
use nalix_core::link::{
    Link,
    memory::{self, MemoryLink},
};
use nalix_server::{Delivery, Identity, Options, Server, ServerHandle, packet, packet_controller};
use support::Inbox;

#[packet(opcode = 0x3001)]
struct Number {
    n: u32,
}

#[derive(Clone, Default)]
struct Ear(Inbox<u32>);

#[packet_controller]
impl Ear {
    #[packet]
    fn number(&self, number: Number) {
        self.0.put(number.n);
    }
}

/// A link that counts what is written to it.
struct Counting {
    link: MemoryLink,
    writes: Arc<AtomicUsize>,
}

impl Link for Counting {
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut BytesMut) -> Poll<io::Result<usize>> {
        self.link.poll_read(cx, buf)
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = self.link.poll_write(cx, bytes);
        self.writes.fetch_add(usize::from(written.is_ready()), SeqCst);
        written
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.link.poll_close(cx)
    }
}

struct Members {
    sessions: Vec<(Session, Inbox<u32>)>,
    writes: Vec<Arc<AtomicUsize>>,
}

impl Members {
    async fn join(server: &ServerHandle, identity: Option<&Identity>, n: usize) -> Self {
        let mut members = Self { sessions: Vec::new(), writes: Vec::new() };
        for _ in 0..n {
            let (ours, theirs) = memory::pair(64 * 1024);
            let writes = Arc::<AtomicUsize>::default();
            server.serve_link(Counting { link: theirs, writes: Arc::clone(&writes) });
            let ear = Ear::default();
            let client = Client::builder("").controller(ear.clone());
            let client = match identity {
                Some(identity) => client.server_key(identity.public_key()),
                None => client.plaintext(),
            };
            members.sessions.push((client.connect_over(ours).await.unwrap(), ear.0));
            members.writes.push(writes);
        }
        let hub = server.hub();
        support::eventually("all are there", || hub.count() == n).await;
        for connection in hub.connections() {
            hub.group("all").join(&connection);
        }
        members.reset();
        members
    }

    fn reset(&self) {
        self.writes.iter().for_each(|writes| writes.store(0, SeqCst));
    }

    /// Checks that everybody has got so many packets by one write.
    async fn have(&self, packets: usize) {
        for (_, inbox) in &self.sessions {
            inbox.has(packets).await;
        }
        for writes in &self.writes {
            assert_eq!(writes.swap(0, SeqCst), 1);
        }
    }
}

async fn one_write_each(server: ServerHandle, identity: Option<&Identity>) {
    let members = Members::join(&server, identity, 50).await;
    let group = server.hub().group("all");
    group.send(&Number { n: 0 });
    members.have(1).await;
    for n in 1..100 {
        assert_eq!(group.send(&Number { n }).queued, 50);
    }
    members.have(100).await;
    for n in 100..200 {
        assert_eq!(group.with(Delivery::Latest(n.into())).send(&Number { n }).queued, 50);
        assert_eq!(server.hub().with(Delivery::Droppable).send_all(&Number { n: n + 100 }).queued, 50);
    }
    members.have(300).await;
    let (_, inbox) = &members.sessions[0];
    assert_eq!(inbox.all()[..100], (0..100).collect::<Vec<_>>());
}

#[tokio::test]
async fn whatever_is_sent_in_one_go_is_one_write_to_each_member() {
    let server = support::server(Ear::default(), Options::default()).await;
    one_write_each(server, None).await;
}

#[tokio::test]
async fn so_it_is_where_it_is_sealed() {
    let identity = Identity::generate().unwrap();
    let builder = Server::builder().identity(identity.clone()).no_listener().controller(Ear::default());
    let server = builder.build().await.unwrap().handle();
    one_write_each(server, Some(&identity)).await;
}
