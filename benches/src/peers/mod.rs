//! The peers: each a server and a client of the same operations, in its own idiom.

mod countdown;
mod nalix;
mod raw;
#[cfg(feature = "peers")]
mod tarpc;
#[cfg(test)]
mod test;
#[cfg(feature = "peers")]
mod tonic;
mod users;

use std::{fmt, io, pin::Pin};

use tokio::net::{TcpListener, TcpStream};

use crate::{
    Error,
    case::Suite,
    child::Child,
    load::{self, Load, Peer, Ready, Sample},
};

/// Every peer that was built in, in the order of the report. A new peer is a module and a line here.
pub(crate) const ALL: &[Entry] = &[
    Entry::of::<raw::Raw>(),
    Entry::of::<nalix::Nalix>(),
    Entry::of::<nalix::NalixAsync>(),
    Entry::of::<nalix::NalixLent>(),
    Entry::of::<nalix::NalixSealed>(),
    Entry::of::<nalix::NalixFleeting>(),
    Entry::of::<nalix::NalixGuarded>(),
    Entry::of::<nalix::NalixStuck>(),
    #[cfg(feature = "peers")]
    Entry::of::<tonic::Unary>(),
    #[cfg(feature = "peers")]
    Entry::of::<tonic::Duplex>(),
    #[cfg(feature = "peers")]
    Entry::of::<tonic::UnaryTls>(),
    #[cfg(feature = "peers")]
    Entry::of::<tonic::DuplexTls>(),
    #[cfg(feature = "peers")]
    Entry::of::<tarpc::Tarpc>(),
];

/// A [`Peer`] whose types are gone: this is the one place where they are erased.
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    pub(crate) does: fn(Suite) -> bool,
    pub(crate) secured: bool,
    pub(crate) serve: fn(Ready, Suite) -> Serving,
    pub(crate) measure: fn(&Load<'_>, &mut Child) -> Result<Sample, Error>,
}

type Serving = Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;

impl Entry {
    const fn of<P: Peer>() -> Self {
        Self {
            name: P::NAME,
            does: P::does,
            secured: P::SECURED,
            serve: |ready, suite| Box::pin(P::serve(ready, suite)),
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

/// A task per connection; one that fails ends alone, and the client of that connection notices.
async fn accept<F>(listener: TcpListener, connection: impl Fn(TcpStream) -> F) -> Result<(), Error>
where
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(connection(stream));
    }
}
