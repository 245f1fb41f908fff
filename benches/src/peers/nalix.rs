//! nalix over TCP with default options: every request has its 30 s timeout, as users get it.
//!
//! The entries: handlers that are plain functions, async ones, and plain functions on connections that are sealed.

use bytes::Bytes;
use nalix_client::{Client as NalixClient, Session};
use nalix_core::{Controller, packet, packet_controller};
use nalix_server::{Identity, PublicKey, Server};

use crate::{
    Error,
    load::{Caller, Client, Peer, Ready, Stop, Tally, callers},
    target::Target,
};

/// Handlers that are done when they return.
pub(crate) enum Nalix {}

/// Handlers that are futures.
pub(crate) enum NalixAsync {}

/// Handlers that are done when they return; the client knows the server by its key, and every record is sealed.
pub(crate) enum NalixSealed {}

#[packet(opcode = 0x1003, reply = Bytes)]
struct Echo {
    data: Bytes,
}

#[packet(opcode = 0x1002, reply = i32)]
struct Sum {
    a: i32,
    b: i32,
}

struct Functions;

#[packet_controller]
impl Functions {
    #[packet]
    fn echo(&self, echo: Echo) -> Bytes {
        echo.data
    }

    #[packet]
    fn sum(&self, sum: Sum) -> i32 {
        sum.a.wrapping_add(sum.b)
    }
}

struct Futures;

#[packet_controller]
impl Futures {
    #[packet]
    async fn echo(&self, echo: Echo) -> Bytes {
        echo.data
    }

    #[packet]
    async fn sum(&self, sum: Sum) -> i32 {
        sum.a.wrapping_add(sum.b)
    }
}

impl Peer for Nalix {
    const NAME: &'static str = "nalix";
    type Client = Session;

    async fn serve(ready: Ready) -> Result<(), Error> {
        serve(ready, Functions, Cover::Plain).await
    }

    async fn connect(target: Target) -> Result<Session, Error> {
        connect(&target, Cover::Plain).await
    }
}

impl Peer for NalixAsync {
    const NAME: &'static str = "nalix-async";
    type Client = Session;

    async fn serve(ready: Ready) -> Result<(), Error> {
        serve(ready, Futures, Cover::Plain).await
    }

    async fn connect(target: Target) -> Result<Session, Error> {
        connect(&target, Cover::Plain).await
    }
}

impl Peer for NalixSealed {
    const NAME: &'static str = "nalix-sealed";
    const SECURED: bool = true;
    type Client = Session;

    async fn serve(ready: Ready) -> Result<(), Error> {
        serve(ready, Functions, Cover::Sealed).await
    }

    async fn connect(target: Target) -> Result<Session, Error> {
        connect(&target, Cover::Sealed).await
    }
}

/// How both ends protect what travels.
#[derive(Debug, Clone, Copy)]
enum Cover {
    Plain,
    Sealed,
}

async fn serve(mut ready: Ready, controller: impl Controller, cover: Cover) -> Result<(), Error> {
    let mut builder = Server::builder();
    match cover {
        Cover::Plain => builder = builder.plaintext(),
        Cover::Sealed => {
            let identity = Identity::generate()?;
            ready = ready.trusted_by(identity.public_key().to_string());
            builder = builder.identity(identity);
        }
    }
    let server = builder.tcp("127.0.0.1:0").controller(controller).build().await?;
    ready.at(server.local_addr());
    server.run().await?;
    Ok(())
}

async fn connect(target: &Target, cover: Cover) -> Result<Session, Error> {
    let builder = NalixClient::builder(format!("tcp://{}", target.address));
    let builder = match cover {
        Cover::Plain => builder.plaintext(),
        Cover::Sealed => builder.server_key(std::str::from_utf8(&target.trust)?.parse::<PublicKey>()?),
    };
    Ok(builder.connect().await?)
}

impl Client for Session {
    async fn echo(&mut self, data: &Bytes) -> Result<usize, Error> {
        Ok(self.request(Echo { data: data.clone() }).await?.len())
    }

    async fn pipeline(&mut self, in_flight: usize, stop: &Stop) -> Result<Tally, Error> {
        callers(self, in_flight, stop).await
    }
}

impl Caller for Session {
    async fn sum(&mut self, a: i32, b: i32) -> Result<i32, Error> {
        Ok(self.request(Sum { a, b }).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::test::tells_servers_apart;

    #[tokio::test(flavor = "multi_thread")]
    async fn what_is_called_sealed_is_not_answered_in_the_clear_nor_by_another_server() {
        tells_servers_apart::<Nalix, NalixSealed>().await;
    }
}
