//! What a peer must be able to do to be measured.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::mpsc,
};

use bytes::Bytes;
use tokio::net::TcpListener;

use super::{Stop, Tally};
use crate::{Error, target::Target};

/// A library under comparison. Both functions are called on the runtime they are to use.
pub(crate) trait Peer: 'static {
    const NAME: &'static str;
    /// Whether [`Client::pipeline`] works.
    const HAS_SUM: bool = true;
    /// Whether what travels is encrypted, and the client knows whom it talks to.
    const SECURED: bool = false;
    type Client: Client;

    /// Listens, tells where by way of `ready`, and serves for ever.
    fn serve(ready: Ready) -> impl Future<Output = Result<(), Error>> + Send + 'static;

    /// Opens one connection.
    fn connect(target: Target) -> impl Future<Output = Result<Self::Client, Error>> + Send + 'static;
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
pub(crate) struct Ready {
    bound: mpsc::Sender<Target>,
    trust: Vec<u8>,
}

impl Ready {
    pub(crate) fn new(bound: mpsc::Sender<Target>) -> Self {
        Self { bound, trust: Vec::new() }
    }

    /// Says what clients recognise the server by; see [`Target::trust`].
    pub(crate) fn trusted_by(self, trust: impl Into<Vec<u8>>) -> Self {
        Self { trust: trust.into(), ..self }
    }

    /// For a server that binds by itself: to a free port of 127.0.0.1.
    pub(crate) fn at(self, address: SocketAddr) {
        // The receiver is gone only when the process is about to end.
        let _ = self.bound.send(Target { address, trust: self.trust });
    }

    /// For a server that takes a listener.
    pub(crate) async fn bind(self) -> io::Result<TcpListener> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        self.at(listener.local_addr()?);
        Ok(listener)
    }
}
