//! The peers: each a server and a client of the same two operations, echo and sum, in its own idiom.

mod nalix;
mod raw;
#[cfg(feature = "peers")]
mod tarpc;
#[cfg(feature = "peers")]
mod tonic;

use std::{
    fmt, io,
    net::{Ipv4Addr, SocketAddr},
    pin::Pin,
    sync::mpsc,
};

use bytes::Bytes;
use tokio::net::{TcpListener, TcpStream};

use crate::{
    Error,
    child::Child,
    load::{self, Load, Sample, Stop, Tally},
};

/// Every peer that was built in, in the order of the report. A new peer is a module and a line here.
pub(crate) const ALL: &[Entry] = &[
    Entry::of::<raw::Raw>(),
    Entry::of::<nalix::Nalix>(),
    Entry::of::<nalix::NalixAsync>(),
    #[cfg(feature = "peers")]
    Entry::of::<tonic::Unary>(),
    #[cfg(feature = "peers")]
    Entry::of::<tonic::Duplex>(),
    #[cfg(feature = "peers")]
    Entry::of::<tarpc::Tarpc>(),
];

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
    /// client is made of futures implement [`load::Caller`] and call [`load::callers`].
    fn pipeline(
        &mut self,
        in_flight: usize,
        stop: &Stop,
    ) -> impl Future<Output = Result<Tally, Error>> + Send;
}

/// A [`Peer`] whose types are gone: this is the one place where they are erased.
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    pub(crate) has_sum: bool,
    pub(crate) serve: fn(Ready) -> Serving,
    pub(crate) measure: fn(&Load<'_>, &mut Child) -> Result<Sample, Error>,
}

type Serving = Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;

impl Entry {
    const fn of<P: Peer>() -> Self {
        Self {
            name: P::NAME,
            has_sum: P::HAS_SUM,
            serve: |ready| Box::pin(P::serve(ready)),
            measure: load::measure::<P>,
        }
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Entry").field(&self.name).finish()
    }
}

pub(crate) fn by_name(name: &str) -> Result<&'static Entry, Error> {
    ALL.iter().find(|entry| entry.name == name).ok_or_else(|| {
        let known: Vec<_> = ALL.iter().map(|entry| entry.name).collect();
        format!("unknown peer `{name}` (built in: {})", known.join(", ")).into()
    })
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
    async fn bind(self) -> io::Result<TcpListener> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        self.at(listener.local_addr()?);
        Ok(listener)
    }
}

/// A task per connection; one that fails ends alone, and the client of that connection notices.
async fn accept<F>(listener: TcpListener, connection: fn(TcpStream) -> F) -> Result<(), Error>
where
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(connection(stream));
    }
}
