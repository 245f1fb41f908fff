//! nalix over TCP without encryption, with default options: every request has its 30 s timeout, as users get it.
//!
//! Two entries differ in the server alone: handlers that are plain functions, and async ones.

use bytes::Bytes;
use nalix_client::{Client as NalixClient, Session};
use nalix_core::{Controller, packet, packet_controller};
use nalix_server::Server;

use crate::{
    Error,
    load::{Caller, Client, Peer, Ready, Stop, Tally, callers},
    target::Target,
};

/// Handlers that are done when they return.
pub(crate) enum Nalix {}

/// Handlers that are futures.
pub(crate) enum NalixAsync {}

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
        serve(ready, Functions).await
    }

    async fn connect(target: Target) -> Result<Session, Error> {
        connect(&target).await
    }
}

impl Peer for NalixAsync {
    const NAME: &'static str = "nalix-async";
    type Client = Session;

    async fn serve(ready: Ready) -> Result<(), Error> {
        serve(ready, Futures).await
    }

    async fn connect(target: Target) -> Result<Session, Error> {
        connect(&target).await
    }
}

async fn serve(ready: Ready, controller: impl Controller) -> Result<(), Error> {
    let server = Server::builder().plaintext().tcp("127.0.0.1:0").controller(controller).build().await?;
    ready.at(server.local_addr());
    server.run().await?;
    Ok(())
}

async fn connect(target: &Target) -> Result<Session, Error> {
    Ok(NalixClient::builder(format!("tcp://{}", target.address)).plaintext().connect().await?)
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
