//! A TCP link that counts writes.

use std::{
    io,
    net::SocketAddr,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::BytesMut;
use nalix_core::link::{
    Link, TryWrite,
    tcp::{self, TcpLink},
};
use tokio::net::TcpStream;

use crate::counters::{self, WRITES};

/// Otherwise the link that a server makes of a socket by itself.
#[derive(Debug)]
pub(super) struct CountingLink(TcpLink);

impl CountingLink {
    pub(super) fn new(stream: TcpStream) -> io::Result<Self> {
        tcp::link(stream).map(Self)
    }
}

impl Link for CountingLink {
    #[inline]
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut BytesMut) -> Poll<io::Result<usize>> {
        self.0.poll_read(cx, buf)
    }

    #[inline]
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = self.0.poll_write(cx, bytes);
        if written.is_ready() {
            counters::add(&WRITES, 1);
        }
        written
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_close(cx)
    }

    fn direct(&self) -> Option<Arc<dyn TryWrite>> {
        Some(Arc::new(CountingWrite(self.0.direct()?)))
    }

    fn set_max_unsent(&self, bytes: usize) {
        self.0.set_max_unsent(bytes);
    }

    fn peer_addr(&self) -> Option<SocketAddr> {
        self.0.peer_addr()
    }

    fn local_addr(&self) -> Option<SocketAddr> {
        self.0.local_addr()
    }
}

/// What is written without the driver.
#[derive(Debug)]
struct CountingWrite(Arc<dyn TryWrite>);

impl TryWrite for CountingWrite {
    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        counters::add(&WRITES, 1);
        self.0.try_write(bytes)
    }
}
