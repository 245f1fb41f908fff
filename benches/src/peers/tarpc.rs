//! tarpc over TCP with its bincode transport, requests run as its documentation shows: a task each.

use std::io;

use ::tarpc::{
    client, context, serde_transport,
    server::{self, BaseChannel, Channel},
    tokio_serde::formats::Bincode,
    tokio_util::codec::LengthDelimitedCodec,
};
use bytes::Bytes;
use tokio::net::TcpStream;
use tokio_stream::StreamExt;

use crate::{
    Error,
    case::{Call, Suite, Work},
    load::{Caller, Client, Peer, Ready, Stop, Tally, callers},
    peers::{
        accept,
        users::{self, Hello, User},
    },
    target::Target,
};

pub(crate) enum Tarpc {}

#[::tarpc::service]
pub(crate) trait Bench {
    async fn echo(data: Bytes) -> Bytes;
    async fn sum(a: i32, b: i32) -> i32;
    async fn get_user(id: i64) -> Option<User>;
    async fn say_hello(hello: Hello) -> Hello;
}

impl Peer for Tarpc {
    const NAME: &'static str = "tarpc";
    type Client = BenchClient;

    async fn serve(ready: Ready, _: Suite) -> Result<(), Error> {
        accept(ready.bind().await?, connection).await
    }

    async fn connect(target: Target, _: Work) -> Result<BenchClient, Error> {
        let stream = TcpStream::connect(target.address).await?;
        stream.set_nodelay(true)?;
        let transport =
            serde_transport::new(LengthDelimitedCodec::builder().new_framed(stream), Bincode::default());
        let mut config = client::Config::default();
        config.max_in_flight_requests = IN_FLIGHT;
        config.pending_request_buffer = IN_FLIGHT;
        Ok(BenchClient::new(config, transport).spawn())
    }
}

async fn connection(stream: TcpStream) -> io::Result<()> {
    let transport =
        serde_transport::new(LengthDelimitedCodec::builder().new_framed(stream), Bincode::default());
    let channel = BaseChannel::new(server::Config { pending_response_buffer: IN_FLIGHT }, transport);
    let mut requests = std::pin::pin!(channel.execute(Answers.serve()));
    while let Some(request) = requests.next().await {
        tokio::spawn(request);
    }
    Ok(())
}

#[derive(Debug, Clone)]
struct Answers;

impl Bench for Answers {
    async fn echo(self, _: context::Context, data: Bytes) -> Bytes {
        data
    }

    async fn sum(self, _: context::Context, a: i32, b: i32) -> i32 {
        a.wrapping_add(b)
    }

    async fn get_user(self, _: context::Context, id: i64) -> Option<User> {
        Some(users::user(id))
    }

    async fn say_hello(self, _: context::Context, hello: Hello) -> Hello {
        hello
    }
}

impl Client for BenchClient {
    async fn echo(&mut self, data: &Bytes) -> Result<usize, Error> {
        Ok(BenchClient::echo(self, context::current(), data.clone()).await?.len())
    }

    async fn calls(&mut self, call: Call, in_flight: usize, stop: &Stop) -> Result<Tally, Error> {
        callers(self, call, in_flight, stop).await
    }
}

impl Caller for BenchClient {
    async fn sum(&mut self, a: i32, b: i32) -> Result<i32, Error> {
        Ok(BenchClient::sum(self, context::current(), a, b).await?)
    }

    async fn get_user(&mut self, id: i64) -> Result<i64, Error> {
        let user = BenchClient::get_user(self, context::current(), id).await?;
        Ok(user.ok_or("there is no such user")?.id)
    }

    async fn say_hello(&mut self) -> Result<i32, Error> {
        Ok(BenchClient::say_hello(self, context::current(), users::hello()).await?.int)
    }
}

/// Above every case's window, so that tarpc is never held up by a setting.
const IN_FLIGHT: usize = 2000;
