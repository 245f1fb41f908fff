//! TCP.

use std::{
    future::Future,
    io,
    net::{Shutdown, SocketAddr, ToSocketAddrs},
    pin::pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::BytesMut;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::{
    io::AsyncReadExt,
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
};

use super::{Link, Transport, TryWrite};
use crate::setters::setters;

/// A link over TCP.
#[derive(Debug)]
pub struct TcpLink {
    read: OwnedReadHalf,
    /// Shared with those who write from beside the driver.
    write: Arc<OwnedWriteHalf>,
    peer_addr: Option<SocketAddr>,
    local_addr: Option<SocketAddr>,
}

impl Link for TcpLink {
    #[inline]
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut BytesMut) -> Poll<io::Result<usize>> {
        // `read_buf` takes nothing unless it completes, so a new future for each poll loses nothing.
        pin!(self.read.read_buf(buf)).poll(cx)
    }

    #[inline]
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let stream: &TcpStream = (*self.write).as_ref();
        loop {
            ready!(stream.poll_write_ready(cx))?;
            match stream.try_write(bytes) {
                // It was ready once; now the runtime knows better.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }

    fn poll_close(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let stream: &TcpStream = (*self.write).as_ref();
        Poll::Ready(SockRef::from(stream).shutdown(Shutdown::Write))
    }

    fn direct(&self) -> Option<Arc<dyn TryWrite>> {
        Some(Arc::clone(&self.write) as Arc<dyn TryWrite>)
    }

    #[cfg(any(target_os = "android", target_os = "linux"))]
    fn set_max_unsent(&self, bytes: usize) {
        let stream: &TcpStream = (*self.write).as_ref();
        // Zero would leave it to the system, and so does what does not fit.
        let bytes = i32::try_from(bytes).unwrap_or(i32::MAX).max(1);
        if let Err(error) = SockRef::from(stream).set_tcp_notsent_lowat(bytes as u32) {
            tracing::debug!(%error, "the system does not bound what it takes");
        }
    }

    fn peer_addr(&self) -> Option<SocketAddr> {
        self.peer_addr
    }

    fn local_addr(&self) -> Option<SocketAddr> {
        self.local_addr
    }

    fn transport(&self) -> Transport {
        Transport::Tcp
    }
}

impl TryWrite for OwnedWriteHalf {
    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        OwnedWriteHalf::try_write(self, bytes)
    }
}

/// How a listening socket is set up. Each option has a method of the same name that sets it.
///
/// ```
/// # use nalix_core::link::tcp::ListenOptions;
/// let options = ListenOptions::default().backlog(4_096).dual_stack(false);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListenOptions {
    /// How many connections the kernel keeps waiting to be accepted. Default 1,024; the kernel has a maximum of its own.
    pub backlog: u32,
    /// Whether several sockets may listen on the port, among which the kernel shares out connections. Default false:
    /// a second server on the port is an error.
    pub shared_port: bool,
    /// Whether a socket on the IPv6 wildcard address takes IPv4 connections as well. Default true.
    pub dual_stack: bool,
}

impl Default for ListenOptions {
    fn default() -> Self {
        Self { backlog: 1_024, shared_port: false, dual_stack: true }
    }
}

#[cfg(feature = "serde")]
crate::__section!(ListenOptions {
    backlog: |raw| crate::config::number(raw, 0, u32::MAX.into()).map(|n| n as u32),
    shared_port: |raw| crate::config::flag(raw),
    dual_stack: |raw| crate::config::flag(raw),
});

setters!(ListenOptions { backlog: u32, shared_port: bool, dual_stack: bool });

/// Makes a link of a connected stream: turns Nagle's algorithm off, since the driver batches by itself.
///
/// # Errors
/// If the socket refuses the option, which means that it is not connected any more.
pub fn link(stream: TcpStream) -> io::Result<TcpLink> {
    stream.set_nodelay(true)?;
    let (peer, local) = (stream.peer_addr().ok(), stream.local_addr().ok());
    let (read, write) = stream.into_split();
    let (peer_addr, local_addr) = (peer.map(canonical), local.map(canonical));
    Ok(TcpLink { read, write: Arc::new(write), peer_addr, local_addr })
}

/// Connects to the first of the addresses that answers.
///
/// # Errors
/// The last address's error.
pub async fn connect(addrs: &[SocketAddr]) -> io::Result<TcpLink> {
    let mut last = io::Error::new(io::ErrorKind::InvalidInput, "no address to connect to");
    for addr in addrs {
        match TcpStream::connect(addr).await {
            Ok(stream) => return link(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Binds and listens.
///
/// Must be called on a tokio runtime.
///
/// # Errors
/// If the address cannot be bound: [`io::ErrorKind::AddrInUse`] if somebody else has it.
pub fn listen(addr: SocketAddr, options: &ListenOptions) -> io::Result<TcpListener> {
    TcpListener::from_std(bind(addr, options)?)
}

/// Binds and listens, for a runtime to take over with [`TcpListener::from_std`].
///
/// # Errors
/// As [`listen`].
pub fn bind(addr: SocketAddr, options: &ListenOptions) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
    if addr.is_ipv6() {
        socket.set_only_v6(!options.dual_stack)?;
    }
    // On Unix this only lets a server start again while connections of its predecessor linger. On Windows it would
    // let two servers share the port.
    #[cfg(unix)]
    socket.set_reuse_address(true)?;
    #[cfg(all(unix, not(any(target_os = "solaris", target_os = "illumos"))))]
    socket.set_reuse_port(options.shared_port)?;
    socket.bind(&addr.into())?;
    socket.listen(i32::try_from(options.backlog).unwrap_or(i32::MAX))?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// Resolves `host:port`. Blocks while the system asks its name servers.
///
/// # Errors
/// If the name is malformed or unknown.
pub fn resolve(address: &str) -> io::Result<Vec<SocketAddr>> {
    Ok(address.to_socket_addrs()?.collect())
}

/// An IPv4 client on a dual-stack socket has an IPv6 address in disguise; everybody is to see the plain one.
fn canonical(addr: SocketAddr) -> SocketAddr {
    SocketAddr::new(addr.ip().to_canonical(), addr.port())
}
