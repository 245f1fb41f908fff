//! Making links to addresses.

use std::{future::Future, io};

use nalix_core::link::{
    Link,
    tcp::{self, TcpLink},
};

/// Makes links to servers: TCP connections, unless [`ClientBuilder::dialer`](crate::ClientBuilder::dialer) is given something
/// else. With one of their own, users test how their program takes lost connections, in memory and without a socket.
///
/// Closures that take an address and return a future are dialers.
///
/// ```
/// use std::io;
/// use nalix_client::{Client, link::memory};
///
/// let (links, servers_ends) = std::sync::mpsc::channel();
/// let dialer = move |_address: &str| {
///     let (ours, theirs) = memory::pair(4096);
///     // A test's server takes the other end: `server.serve_link(theirs)`.
///     let served = links.send(theirs).map_err(|_| io::Error::from(io::ErrorKind::ConnectionRefused));
///     async move { served.map(|()| ours) }
/// };
/// let builder = Client::builder("memory").dialer(dialer).plaintext();
/// # drop(servers_ends);
/// ```
pub trait Dial: Send + Sync + 'static {
    /// What it makes.
    type Link: Link + Unpin;

    /// Whether addresses must be of the form `tcp://host:port`, which is checked before anything is dialed.
    #[doc(hidden)]
    const NEEDS_ADDRESS: bool = false;

    /// Makes a link to an address, which is one of those that the builder was given, as it was given.
    ///
    /// The future may be dropped before it is done.
    ///
    /// # Errors
    /// Why there is none. The session tries again; an address that can never be dialed is
    /// [`io::ErrorKind::InvalidInput`], and ends that.
    fn dial(&self, address: &str) -> impl Future<Output = io::Result<Self::Link>> + Send;
}

impl<F, Fut, L> Dial for F
where
    F: Fn(&str) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = io::Result<L>> + Send,
    L: Link + Unpin,
{
    type Link = L;

    fn dial(&self, address: &str) -> impl Future<Output = io::Result<L>> + Send {
        self(address)
    }
}

/// Dials `tcp://host:port`. Names are looked up at each attempt, so that a server may move.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tcp;

impl Dial for Tcp {
    type Link = TcpLink;
    const NEEDS_ADDRESS: bool = true;

    async fn dial(&self, address: &str) -> io::Result<TcpLink> {
        let host = match crate::address::Address::parse(address) {
            Ok(crate::address::Address::Tcp(host)) => host,
            Err(error) => return Err(io::Error::new(io::ErrorKind::InvalidInput, error.to_string())),
        };
        let addrs: Vec<_> = tokio::net::lookup_host(host).await?.collect();
        tcp::connect(&addrs).await
    }
}
