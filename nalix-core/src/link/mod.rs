//! What carries records: byte streams of any kind.

pub mod memory;
#[cfg(feature = "tcp")]
pub mod tcp;

use std::{
    future::Future,
    io,
    net::SocketAddr,
    pin::{Pin, pin},
    task::{Context, Poll},
};

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};

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

    /// The peer's address, where there are addresses.
    fn peer_addr(&self) -> Option<SocketAddr> {
        None
    }

    /// Our address, where there are addresses.
    fn local_addr(&self) -> Option<SocketAddr> {
        None
    }
}

/// Any byte stream as a link.
#[derive(Debug)]
pub struct StreamLink<S> {
    stream: S,
    peer_addr: Option<SocketAddr>,
    local_addr: Option<SocketAddr>,
}

impl<S> StreamLink<S> {
    /// A link over `stream`.
    pub fn new(stream: S) -> Self {
        Self { stream, peer_addr: None, local_addr: None }
    }

    /// Says whose addresses the stream connects.
    #[must_use]
    pub fn with_addrs(mut self, peer: Option<SocketAddr>, local: Option<SocketAddr>) -> Self {
        (self.peer_addr, self.local_addr) = (peer, local);
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
}
