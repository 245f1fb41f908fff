//! What a peer must be able to do to be measured.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::mpsc,
};

use bytes::Bytes;
use tokio::net::TcpListener;

use super::{Stop, Tally};
use crate::Error;

/// A library under comparison. Both functions are called on the runtime they are to use.
pub(crate) trait Peer: 'static {
    const NAME: &'static str;
    /// Whether [`Client::pipeline`] works.
    const HAS_SUM: bool = true;
    type Client: Client;

    /// Listens, tells where by way of `ready`, and serves for ever.
    fn serve(ready: Ready) -> impl Future<Output = Result<(), Error>> + Send + 'static;

    /// Opens one connection.
    fn connect(address: SocketAddr) -> impl Future<Output = Result<Self::Client, Error>> + Send + 'static;
}

/// One connection of a peer.
pub(crate) trait Client: Send + 'static {
    /// Sends `data`, waits for its echo, returns how long that was.
    fn echo(&mut self, data: &Bytes) -> impl Future<Output = Result<usize, Error>> + Send;

    /// Keeps `in_flight` calls of `Sum` going; at `stop`, waits for those in flight and returns. Libraries whose
    /// client is made of futures implement [`Caller`](super::Caller) and call [`callers`](super::callers()).
    fn pipeline(
        &mut self,
        in_flight: usize,
        stop: &Stop,
    ) -> impl Future<Output = Result<Tally, Error>> + Send;
}

/// How a server says where it listens.
#[derive(Debug)]
pub(crate) struct Ready(mpsc::Sender<SocketAddr>);

impl Ready {
    pub(crate) fn new(bound: mpsc::Sender<SocketAddr>) -> Self {
        Self(bound)
    }

    /// For a server that binds by itself: to a free port of 127.0.0.1.
    pub(crate) fn at(self, address: SocketAddr) {
        // The receiver is gone only when the process is about to end.
        let _ = self.0.send(address);
    }

    /// For a server that takes a listener.
    pub(crate) async fn bind(self) -> io::Result<TcpListener> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        self.at(listener.local_addr()?);
        Ok(listener)
    }
}
