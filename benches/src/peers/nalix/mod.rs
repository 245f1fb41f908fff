//! nalix over TCP with default options: every request has its 30 s timeout, as users get it. Only the limit of messages is
//! raised where they are larger than that.

mod lent;
mod link;
mod members;
mod packets;

use bytes::Bytes;
use nalix_client::{Client as NalixClient, ClientBuilder, Incoming, Options, Session};
use nalix_core::Controller;
use nalix_server::{Delivery, GuardOptions, Identity, PublicKey, Server, ServerBuilder};

pub(crate) use self::lent::NalixLent;
use self::{
    link::CountingLink,
    members::Group,
    packets::{Echo, Fetch, Functions, Futures, GetItems, GetUser, Guarded, Item, SayHello, Store, Sum},
};
use super::users;
use crate::{
    Error,
    case::{Call, LARGE, Streamed, Suite, Work},
    load::{Caller, Client, Items, Mover, Peer, Ready, Source, Stop, Tally, callers, movers, readers},
    target::Target,
};

/// Handlers that are done when they return.
pub(crate) enum Nalix {}

/// Handlers that are futures.
pub(crate) enum NalixAsync {}

/// Handlers that are done when they return; the client knows the server by its key, and every record is sealed.
pub(crate) enum NalixSealed {}

/// Sessions end with their links: nothing is kept to be sent again.
pub(crate) enum NalixFleeting {}

/// Handlers with policies, behind a guard that counts this machine, too.
pub(crate) enum NalixGuarded {}

/// A group with one member more, which does not read.
pub(crate) enum NalixStuck {}

impl Peer for Nalix {
    const NAME: &'static str = "nalix";
    type Client = Connected;

    fn does(_: Suite) -> bool {
        true
    }

    async fn serve(ready: Ready, suite: Suite) -> Result<(), Error> {
        serve(ready, suite, Functions::default(), Cover::Plain).await
    }

    async fn connect(target: Target, work: Work) -> Result<Connected, Error> {
        Connected::new(target, work, Cover::Plain, false).await
    }
}

impl Peer for NalixAsync {
    const NAME: &'static str = "nalix-async";
    type Client = Connected;

    fn does(suite: Suite) -> bool {
        matches!(suite, Suite::Echo | Suite::Sum)
    }

    async fn serve(ready: Ready, suite: Suite) -> Result<(), Error> {
        serve(ready, suite, Futures, Cover::Plain).await
    }

    async fn connect(target: Target, work: Work) -> Result<Connected, Error> {
        Connected::new(target, work, Cover::Plain, false).await
    }
}

impl Peer for NalixSealed {
    const NAME: &'static str = "nalix-sealed";
    const SECURED: bool = true;
    type Client = Connected;

    fn does(_: Suite) -> bool {
        true
    }

    async fn serve(ready: Ready, suite: Suite) -> Result<(), Error> {
        serve(ready, suite, Functions::default(), Cover::Sealed).await
    }

    async fn connect(target: Target, work: Work) -> Result<Connected, Error> {
        Connected::new(target, work, Cover::Sealed, false).await
    }
}

impl Peer for NalixFleeting {
    const NAME: &'static str = "nalix-fleeting";
    type Client = Connected;

    fn does(suite: Suite) -> bool {
        matches!(suite, Suite::Echo | Suite::Sum)
    }

    async fn serve(ready: Ready, _: Suite) -> Result<(), Error> {
        let options = Options::default().resume_log(0);
        let builder = Server::builder().plaintext().options(options).controller(Functions::default());
        let server = builder.tcp("127.0.0.1:0").build().await?;
        ready.at(server.local_addr());
        server.run().await?;
        Ok(())
    }

    async fn connect(target: Target, _: Work) -> Result<Connected, Error> {
        let builder = dial(&target, Cover::Plain)?.no_reconnect();
        Ok(Connected { session: builder.connect().await?, group: None })
    }
}

impl Peer for NalixGuarded {
    const NAME: &'static str = "nalix-guarded";
    type Client = Connected;

    fn does(suite: Suite) -> bool {
        matches!(suite, Suite::Echo | Suite::Sum)
    }

    async fn serve(ready: Ready, _: Suite) -> Result<(), Error> {
        let mut guard = GuardOptions::default();
        guard.exempt_loopback = false;
        let builder = Server::builder().plaintext().guard(guard).controller(Guarded);
        let server = builder.tcp("127.0.0.1:0").build().await?;
        ready.at(server.local_addr());
        server.run().await?;
        Ok(())
    }

    async fn connect(target: Target, work: Work) -> Result<Connected, Error> {
        Connected::new(target, work, Cover::Plain, false).await
    }
}

impl Peer for NalixStuck {
    const NAME: &'static str = "nalix-stuck";
    type Client = Connected;

    fn does(suite: Suite) -> bool {
        suite == Suite::Fanout
    }

    async fn serve(ready: Ready, suite: Suite) -> Result<(), Error> {
        // By the default delivery it would be closed at the first message, and not be stuck any more.
        serve(ready, suite, Functions { delivery: Delivery::Droppable }, Cover::Plain).await
    }

    async fn connect(target: Target, work: Work) -> Result<Connected, Error> {
        Connected::new(target, work, Cover::Plain, true).await
    }
}

/// How both ends protect what travels.
#[derive(Debug, Clone, Copy)]
enum Cover {
    Plain,
    Sealed,
}

async fn serve(
    mut ready: Ready,
    suite: Suite,
    controller: impl Controller,
    cover: Cover,
) -> Result<(), Error> {
    let mut builder = Server::builder().controller(controller);
    match cover {
        Cover::Plain => builder = builder.plaintext(),
        Cover::Sealed => {
            let identity = Identity::generate()?;
            ready = ready.trusted_by(identity.public_key().to_string());
            builder = builder.identity(identity);
        }
    }
    match suite {
        Suite::Fanout => return serve_counted(ready, builder).await,
        Suite::Large => builder = builder.options(for_large()),
        _ => {}
    }
    let server = builder.tcp("127.0.0.1:0").build().await?;
    ready.at(server.local_addr());
    server.run().await?;
    Ok(())
}

/// Serves links that count writes.
async fn serve_counted(ready: Ready, builder: ServerBuilder) -> Result<(), Error> {
    let server = builder.no_listener().build().await?;
    let (handle, _running) = server.spawn();
    let listener = ready.bind().await?;
    loop {
        let (stream, _) = listener.accept().await?;
        handle.serve_link(CountingLink::new(stream)?);
    }
}

/// Both ends take messages that are larger than the default limit.
fn for_large() -> Options {
    Options::default().max_message(MAX_MESSAGE).max_send(MAX_MESSAGE)
}

fn dial(target: &Target, cover: Cover) -> Result<ClientBuilder, Error> {
    let builder = NalixClient::builder(format!("tcp://{}", target.address));
    Ok(match cover {
        Cover::Plain => builder.plaintext(),
        Cover::Sealed => builder.server_key(std::str::from_utf8(&target.trust)?.parse::<PublicKey>()?),
    })
}

/// A connection, and those of the members if it has a group sent to.
#[derive(Debug)]
pub(crate) struct Connected {
    session: Session,
    group: Option<Group>,
}

impl Connected {
    async fn new(target: Target, work: Work, cover: Cover, stuck: bool) -> Result<Self, Error> {
        let mut builder = dial(&target, cover)?;
        if work == Work::Large {
            builder = builder.options(for_large());
        }
        let session = builder.connect().await?;
        let group = match work {
            Work::Fanout(fanout) => Some(Group::gather(&target, cover, fanout, stuck, &session).await?),
            _ => None,
        };
        Ok(Self { session, group })
    }
}

impl Client for Connected {
    async fn echo(&mut self, data: &Bytes) -> Result<usize, Error> {
        Ok(self.session.request(Echo { data: data.clone() }).await?.len())
    }

    async fn calls(&mut self, call: Call, in_flight: usize, stop: &Stop) -> Result<Tally, Error> {
        callers(&self.session, call, in_flight, stop).await
    }

    async fn streams(&mut self, streams: usize, of: Streamed, stop: &Stop) -> Result<Tally, Error> {
        readers(&self.session, streams, of, stop).await
    }

    async fn fanout(&mut self, stop: &Stop) -> Result<Tally, Error> {
        self.group.as_ref().ok_or("no group was made")?.run(&self.session, stop).await
    }

    async fn large(&mut self, stop: &Stop) -> Result<Tally, Error> {
        movers(&self.session, stop).await
    }
}

impl Caller for Session {
    async fn sum(&mut self, a: i32, b: i32) -> Result<i32, Error> {
        Ok(self.request(Sum { a, b }).await?)
    }

    async fn get_user(&mut self, id: i64) -> Result<i64, Error> {
        Ok(self.request(GetUser { id }).await?.ok_or("there is no such user")?.id)
    }

    async fn say_hello(&mut self) -> Result<i32, Error> {
        Ok(self.request(SayHello { request: users::hello() }).await?.response.int)
    }
}

impl Source for Session {
    type Items = Incoming<Item>;

    async fn open(&mut self, of: Streamed) -> Result<Incoming<Item>, Error> {
        Ok(self.stream(GetItems { items: of.items, size: u32::try_from(of.size)? }).await?)
    }
}

impl Items for Incoming<Item> {
    async fn next(&mut self) -> Result<Option<(i64, usize)>, Error> {
        let item = Incoming::next(self).await.transpose()?;
        Ok(item.map(|Item { index, data }| (index, data.len())))
    }
}

impl Mover for Session {
    async fn store(&mut self, data: &Bytes) -> Result<usize, Error> {
        Ok(usize::try_from(self.request(Store { data: data.clone() }).await?)?)
    }

    async fn fetch(&mut self, size: usize) -> Result<usize, Error> {
        Ok(self.request(Fetch { size: u32::try_from(size)? }).await?.len())
    }

    async fn small(&mut self, data: &Bytes) -> Result<usize, Error> {
        Ok(self.request(Echo { data: data.clone() }).await?.len())
    }
}

/// Room for a large message and what is around its data.
const MAX_MESSAGE: usize = LARGE + (1 << 20);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::test::tells_servers_apart;

    #[tokio::test(flavor = "multi_thread")]
    async fn what_is_called_sealed_is_not_answered_in_the_clear_nor_by_another_server() {
        tells_servers_apart::<Nalix, NalixSealed>().await;
    }
}
