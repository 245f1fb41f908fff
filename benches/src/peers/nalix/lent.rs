//! A client that reads streams without owning their items.

use bytes::Bytes;
use nalix_client::{Incoming, Session};

use super::{
    Connected, Cover,
    packets::{Functions, GetItems, Item, ItemRef},
    serve,
};
use crate::{
    Error,
    case::{Streamed, Suite, Work},
    load::{Client, Items, Peer, Ready, Source, Stop, Tally, readers},
    target::Target,
};

/// The server is that of nalix.
pub(crate) enum NalixLent {}

impl Peer for NalixLent {
    const NAME: &'static str = "nalix-lent";
    type Client = Reader;

    fn does(suite: Suite) -> bool {
        suite == Suite::Streams
    }

    async fn serve(ready: Ready, suite: Suite) -> Result<(), Error> {
        serve(ready, suite, Functions::default(), Cover::Plain).await
    }

    async fn connect(target: Target, work: Work) -> Result<Reader, Error> {
        Ok(Reader(Connected::new(target, work, Cover::Plain, false).await?.session))
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Reader(Session);

impl Client for Reader {
    async fn echo(&mut self, _: &Bytes) -> Result<usize, Error> {
        Err("it reads streams".into())
    }

    async fn streams(&mut self, streams: usize, of: Streamed, stop: &Stop) -> Result<Tally, Error> {
        readers(self, streams, of, stop).await
    }
}

impl Source for Reader {
    type Items = Lent;

    async fn open(&mut self, of: Streamed) -> Result<Lent, Error> {
        let get = GetItems { items: of.items, size: u32::try_from(of.size)? };
        Ok(Lent(self.0.stream(get).await?))
    }
}

pub(crate) struct Lent(Incoming<Item>);

impl Items for Lent {
    async fn next(&mut self) -> Result<Option<(i64, usize)>, Error> {
        let item = self.0.next_as::<ItemRef<'_>>().await.transpose()?;
        Ok(item.map(|ItemRef { index, data }| (index, data.len())))
    }
}
