//! What carries records: byte streams of any kind.

pub mod faults;
pub mod memory;
pub mod proxy_protocol;
#[cfg(feature = "tcp")]
pub mod tcp;

use std::{
    fmt,
    future::Future,
    io,
    net::SocketAddr,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
};

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};

/// What kind of link carries a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Transport {
    /// A TCP stream.
    Tcp,
    /// A WebSocket, over TCP or TLS.
    WebSocket,
    /// UDP datagrams.
    Udp,
    /// A pair of ends within the process.
    Memory,
    /// Any other.
    Other,
}

/// A connected link. The driver owns it, reads and writes from one task, and closes it.
pub trait Link: Send + 'static {
    /// Appends what has arrived to `buf` and returns how many bytes that was; 0 at the end of the peer's direction.
    ///
    /// # Errors
    /// Whatever the link fails with; the connection is lost then.
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut BytesMut) -> Poll<io::Result<usize>>;

    /// Writes some of `bytes`, which are not empty, and returns how many.
    ///
    /// # Errors
    /// Whatever the link fails with; the connection is lost then.
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>>;

    /// Shuts our direction, so that the peer reads its end after all that was written.
    ///
    /// # Errors
    /// Whatever the link fails with.
    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// A way to write without the driver, where the link has one. It saves a lone caller the hand-over to the driver's
    /// task.
    fn direct(&self) -> Option<Arc<dyn TryWrite>> {
        None
    }

    /// Asks for no more than so many bytes to be taken that have not been sent yet: what is written beyond them is refused
    /// until the network has taken some. A link that cannot do this takes what it takes.
    fn set_max_unsent(&self, bytes: usize) {
        let _ = bytes;
    }

    /// The peer's address, where there are addresses.
    fn peer_addr(&self) -> Option<SocketAddr> {
        None
    }

    /// Our address, where there are addresses.
    fn local_addr(&self) -> Option<SocketAddr> {
        None
    }

    /// What kind of link it is, for handlers that are served over some kinds only.
    fn transport(&self) -> Transport {
        Transport::Other
    }
}

/// A link of any kind, where links of several kinds serve one session.
pub type BoxLink = Box<dyn Link + Unpin>;

impl Link for BoxLink {
    #[inline]
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut BytesMut) -> Poll<io::Result<usize>> {
        (**self).poll_read(cx, buf)
    }

    #[inline]
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        (**self).poll_write(cx, bytes)
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        (**self).poll_close(cx)
    }

    fn direct(&self) -> Option<Arc<dyn TryWrite>> {
        (**self).direct()
    }

    fn set_max_unsent(&self, bytes: usize) {
        (**self).set_max_unsent(bytes);
    }

    fn peer_addr(&self) -> Option<SocketAddr> {
        (**self).peer_addr()
    }

    fn local_addr(&self) -> Option<SocketAddr> {
        (**self).local_addr()
    }

    fn transport(&self) -> Transport {
        (**self).transport()
    }
}

/// Writes to a link from beside the driver that owns it. Nobody does so while the driver writes.
pub trait TryWrite: fmt::Debug + Send + Sync {
    /// Writes some of `bytes` and returns how many, without waiting.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if the link takes nothing now, else whatever it fails with.
    fn try_write(&self, bytes: &[u8]) -> io::Result<usize>;
}

/// Any byte stream as a link.
#[derive(Debug)]
pub struct StreamLink<S> {
    stream: S,
    peer_addr: Option<SocketAddr>,
    local_addr: Option<SocketAddr>,
    transport: Transport,
}

impl<S> StreamLink<S> {
    /// A link over `stream`.
    pub fn new(stream: S) -> Self {
        Self { stream, peer_addr: None, local_addr: None, transport: Transport::Other }
    }

    /// Says whose addresses the stream connects.
    #[must_use]
    pub fn with_addrs(mut self, peer: Option<SocketAddr>, local: Option<SocketAddr>) -> Self {
        (self.peer_addr, self.local_addr) = (peer, local);
        self
    }

    /// Says what kind of link the stream is.
    #[must_use]
    pub fn with_transport(mut self, transport: Transport) -> Self {
        self.transport = transport;
        self
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Link for StreamLink<S> {
    #[inline]
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut BytesMut) -> Poll<io::Result<usize>> {
        // `read_buf` takes nothing unless it completes, so a new future for each poll loses nothing.
        pin!(self.stream.read_buf(buf)).poll(cx)
    }

    #[inline]
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn peer_addr(&self) -> Option<SocketAddr> {
        self.peer_addr
    }

    fn local_addr(&self) -> Option<SocketAddr> {
        self.local_addr
    }
    fn transport(&self) -> Transport {
        self.transport
    }
}
