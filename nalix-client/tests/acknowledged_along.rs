//! What a lone caller's connection costs in writes, on a session that outlives its links.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use bytes::{Bytes, BytesMut};
use nalix_client::Client;
use nalix_core::{
    link::{
        Link, TryWrite,
        tcp::{self, TcpLink},
    },
    packet, packet_controller,
};
use nalix_server::Server;
use tokio::net::TcpStream;

#[packet(opcode = 0x1001, reply = Bytes)]
struct Echo(Bytes);

struct Echoes;

#[packet_controller]
impl Echoes {
    #[packet]
    fn echo(&self, Echo(bytes): Echo) -> Bytes {
        bytes
    }
}

/// A TCP link that counts what is written, by the driver and beside it.
struct Counted {
    link: TcpLink,
    writes: Arc<AtomicUsize>,
}

impl Link for Counted {
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut BytesMut) -> Poll<io::Result<usize>> {
        self.link.poll_read(cx, buf)
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.link.poll_write(cx, bytes)
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.link.poll_close(cx)
    }

    fn direct(&self) -> Option<Arc<dyn TryWrite>> {
        Some(Arc::new(Direct { inner: self.link.direct()?, writes: Arc::clone(&self.writes) }))
    }

    fn peer_addr(&self) -> Option<SocketAddr> {
        self.link.peer_addr()
    }
}

#[derive(Debug)]
struct Direct {
    inner: Arc<dyn TryWrite>,
    writes: Arc<AtomicUsize>,
}

impl TryWrite for Direct {
    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.inner.try_write(bytes)
    }
}

/// The driver of such a connection had nothing to write that an acknowledgement could go along with, and sent one by itself
/// every sixteen kilobytes.
#[tokio::test]
async fn a_lone_caller_takes_acknowledgements_along_instead_of_having_them_written_apart() {
    const CALLS: usize = 200;
    let server = Server::builder().plaintext().controller(Echoes).tcp("127.0.0.1:0").build().await.unwrap();
    let address = server.local_addr();
    let running = tokio::spawn(server.run());

    let writes = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&writes);
    let dialer = move |_: &str| {
        let writes = Arc::clone(&counter);
        async move {
            let link = tcp::link(TcpStream::connect(address).await?)?;
            Ok(Counted { link, writes })
        }
    };
    let session = Client::builder("counted").dialer(dialer).plaintext().connect().await.unwrap();
    let payload = Bytes::from(vec![7; 1024]);
    assert_eq!(session.request(Echo(payload.clone())).await.unwrap(), payload);

    let before = writes.load(Ordering::Relaxed);
    for _ in 0..CALLS {
        assert_eq!(session.request(Echo(payload.clone())).await.unwrap(), payload);
    }
    assert_eq!(writes.load(Ordering::Relaxed) - before, CALLS, "one write for each call");

    session.close().await;
    running.abort();
}
