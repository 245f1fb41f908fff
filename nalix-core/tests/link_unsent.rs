//! How much the system takes for a peer that does not read.
#![cfg(all(feature = "tcp", any(target_os = "android", target_os = "linux")))]

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
};

use bytes::BytesMut;

use nalix_core::{
    connection::{Options, accept, connect},
    handshake::{ClientSecurity, Contracts, ServerSecurity},
    link::{
        BoxLink, Link,
        memory::pair as memory_pair,
        tcp::{self, TcpLink},
    },
};
use tokio::net::{TcpSocket, TcpStream};

/// Both ends of a connection whose first end has little room for what it does not read.
async fn pair() -> (TcpStream, TcpLink) {
    let listener = TcpSocket::new_v4().unwrap();
    listener.set_recv_buffer_size(8 * 1024).unwrap();
    listener.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let listener = listener.listen(1).unwrap();
    let link = tcp::connect(&[listener.local_addr().unwrap()]).await.unwrap();
    (listener.accept().await.unwrap().0, link)
}

/// How many bytes the system takes at once.
fn fill(link: &mut TcpLink) -> usize {
    let cx = &mut Context::from_waker(Waker::noop());
    let mut taken = 0;
    while let Poll::Ready(written) = link.poll_write(cx, &[7; 16 * 1024]) {
        taken += written.unwrap();
    }
    taken
}

#[tokio::test]
async fn the_system_takes_little_more_than_it_is_asked_to_for_a_peer_that_does_not_read() {
    let (_deaf, mut free) = pair().await;
    let (_deaf, mut bound) = pair().await;
    bound.set_max_unsent(32 * 1024);
    let (free, bound) = (fill(&mut free), fill(&mut bound));
    // What the peer's system has taken in counts as sent.
    assert!(bound < 128 * 1024, "{bound} bytes");
    assert!(free > 2 * bound, "the bound is of no effect: {free} bytes without it and {bound} with it");
}

/// Notes what it is asked for.
struct Asked<L>(L, Arc<Mutex<Vec<usize>>>);

impl<L: Link> Link for Asked<L> {
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut BytesMut) -> Poll<io::Result<usize>> {
        self.0.poll_read(cx, buf)
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.poll_write(cx, bytes)
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_close(cx)
    }

    fn set_max_unsent(&self, bytes: usize) {
        self.1.lock().unwrap().push(bytes);
    }
}

#[tokio::test]
async fn each_side_asks_its_link_for_what_its_options_say() {
    let (client, server) = memory_pair(1_024);
    let (up, down) = (Arc::default(), Arc::default());
    let client = Asked(client, Arc::clone(&up));
    // Boxed, as links are that a server takes from listeners of any kind.
    let server: BoxLink = Box::new(Asked(server, Arc::clone(&down)));
    let options = [Options::default().max_unsent(1_000), Options::default().max_unsent(0)];
    let (connected, accepted) = tokio::join!(
        connect(client, Contracts::default(), &ClientSecurity::Plaintext, &options[0]),
        accept(server, Contracts::default(), &ServerSecurity::Plaintext, &options[1]),
    );
    drop((connected.unwrap(), accepted.unwrap()));
    assert_eq!(*up.lock().unwrap(), [1_000]);
    assert_eq!(*down.lock().unwrap(), [1], "zero would leave it to the system");
}
