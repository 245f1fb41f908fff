//! What a peer must be able to do to be measured.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::mpsc,
};

use bytes::Bytes;
use tokio::net::TcpListener;

use super::{Stop, Tally};
use crate::{
    Error,
    case::{Call, Streamed, Suite, Work},
    target::Target,
};

/// A library under comparison. Both functions are called on the runtime they are to use.
pub(crate) trait Peer: 'static {
    const NAME: &'static str;
    /// Whether what travels is encrypted, and the client knows whom it talks to.
    const SECURED: bool = false;
    type Client: Client;

    /// Whether it takes part in what that suite does. Those are echoes and calls unless it says otherwise.
    fn does(suite: Suite) -> bool {
        matches!(suite, Suite::Echo | Suite::Sum | Suite::Users)
    }

    /// Listens, tells where by way of `ready`, and serves for ever. It may serve other suites, too.
    fn serve(ready: Ready, suite: Suite) -> impl Future<Output = Result<(), Error>> + Send + 'static;

    /// Opens one connection, and those of all members of the group if the work is a fan-out.
    fn connect(
        target: Target,
        work: Work,
    ) -> impl Future<Output = Result<Self::Client, Error>> + Send + 'static;
}

/// One connection of a peer. It does what [`Peer::does`] says; the rest fails.
pub(crate) trait Client: Send + 'static {
    /// Sends `data`, waits for its echo, returns how long that was.
    fn echo(&mut self, data: &Bytes) -> impl Future<Output = Result<usize, Error>> + Send;

    /// Keeps `in_flight` calls going; at `stop`, waits for those in flight and returns. Libraries whose client is made of
    /// futures implement [`Caller`](super::Caller) and call [`callers`](super::callers()).
    fn calls(
        &mut self,
        _call: Call,
        _in_flight: usize,
        _stop: &Stop,
    ) -> impl Future<Output = Result<Tally, Error>> + Send {
        unable()
    }

    /// Reads streams, so many at a time; at `stop`, reads to their ends those that are open. See
    /// [`readers`](super::readers()).
    fn streams(
        &mut self,
        _streams: usize,
        _of: Streamed,
        _stop: &Stop,
    ) -> impl Future<Output = Result<Tally, Error>> + Send {
        unable()
    }

    /// Has the group sent to until `stop`, and waits until all members have everything. See
    /// [`Gathering`](super::Gathering).
    fn fanout(&mut self, _stop: &Stop) -> impl Future<Output = Result<Tally, Error>> + Send {
        unable()
    }

    /// Moves large messages until `stop`, and makes small calls beside them. See [`movers`](super::movers()).
    fn large(&mut self, _stop: &Stop) -> impl Future<Output = Result<Tally, Error>> + Send {
        unable()
    }
}

async fn unable() -> Result<Tally, Error> {
    Err("this peer takes no part in that".into())
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
