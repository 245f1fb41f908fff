//! What stands in front of a link: a proxy's header, if it comes from one.

use std::{
    future::{Future, poll_fn},
    io,
    net::SocketAddr,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::{Buf, BytesMut};
use nalix_core::link::{
    Link, Transport, TryWrite,
    proxy_protocol::{self, HeaderError},
};
use thiserror::Error;
use tokio::time::timeout;

use super::{Guard, Origin, Seat};

/// A link whose client is known, as far as there is one to know.
#[derive(Debug)]
pub(crate) struct Fronted<L> {
    link: L,
    /// What was read behind the header.
    ahead: BytesMut,
    peer_addr: Option<SocketAddr>,
    /// Whether a proxy speaks for itself, or for somebody whom it does not name.
    is_proxy: bool,
    /// Counts the link for its address as long as it is there.
    seat: Option<Seat>,
}

/// Why a link from a proxy is not served.
#[derive(Debug, Error)]
pub(crate) enum FrontError {
    #[error("{0}")]
    Header(#[from] HeaderError),
    #[error("the link ended in its PROXY header: {0}")]
    Io(#[from] io::Error),
    #[error("the PROXY header did not come in time")]
    Timeout,
    #[error("the server stopped before the PROXY header had come")]
    Stopped,
}

impl Guard {
    /// Whether a link begins with a proxy's header.
    pub(crate) fn has_header(&self, link: &impl Link) -> bool {
        let proxies = &self.inner.proxies;
        !proxies.is_empty() && link.peer_addr().is_some_and(|peer| proxies.contains(peer.ip()))
    }

    /// A link without a header in front of it.
    pub(crate) fn direct<L: Link>(link: L) -> Fronted<L> {
        let peer_addr = link.peer_addr();
        Fronted { link, ahead: BytesMut::new(), peer_addr, is_proxy: false, seat: None }
    }
}

/// Reads a proxy's header, until `stop`.
///
/// # Errors
/// [`FrontError`] if there is none; the link is of no use then.
pub(crate) async fn front<L: Link>(
    guard: &Guard,
    mut link: L,
    stop: impl Future<Output = ()>,
) -> Result<Fronted<L>, FrontError> {
    let options = &guard.inner.options;
    if options.proxy_timeout.is_zero() {
        // A timer would let through what is there already.
        return Err(FrontError::Timeout);
    }
    let read = async {
        let mut bytes = BytesMut::new();
        loop {
            if let Some(header) = proxy_protocol::parse(&bytes, options.max_proxy_header)? {
                bytes.advance(header.len);
                return Ok::<_, FrontError>((header.origin, bytes));
            }
            if poll_fn(|cx| link.poll_read(cx, &mut bytes)).await? == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
        }
    };
    let (origin, ahead) = tokio::select! {
        read = timeout(options.proxy_timeout, read) => read.map_err(|_| FrontError::Timeout)??,
        () = stop => return Err(FrontError::Stopped),
    };
    let (is_proxy, peer_addr) = match origin {
        proxy_protocol::Origin::Inet { source, .. } => (false, Some(source)),
        // Nobody at the proxy's address has sent what follows.
        proxy_protocol::Origin::Unix => (true, None),
        _ => (true, link.peer_addr()),
    };
    Ok(Fronted { link, ahead, peer_addr, is_proxy, seat: None })
}

impl<L> Fronted<L> {
    /// Counts the link for its address until it is dropped.
    pub(crate) fn sit_down(&mut self, seat: Seat) {
        self.seat = Some(seat);
    }

    /// Whose it is.
    pub(crate) fn origin(&self) -> Origin {
        match self.peer_addr {
            _ if self.is_proxy => Origin::Proxy,
            Some(address) => Origin::Client(address),
            None => Origin::Unknown,
        }
    }
}

impl<L: Link> Link for Fronted<L> {
    #[inline]
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut BytesMut) -> Poll<io::Result<usize>> {
        if self.ahead.is_empty() {
            return self.link.poll_read(cx, buf);
        }
        let ahead = std::mem::take(&mut self.ahead);
        buf.extend_from_slice(&ahead);
        Poll::Ready(Ok(ahead.len()))
    }

    #[inline]
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.link.poll_write(cx, bytes)
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.link.poll_close(cx)
    }

    fn direct(&self) -> Option<Arc<dyn TryWrite>> {
        self.link.direct()
    }

    fn set_max_unsent(&self, bytes: usize) {
        self.link.set_max_unsent(bytes);
    }

    fn peer_addr(&self) -> Option<SocketAddr> {
        self.peer_addr
    }

    fn local_addr(&self) -> Option<SocketAddr> {
        self.link.local_addr()
    }

    fn transport(&self) -> Transport {
        self.link.transport()
    }
}
