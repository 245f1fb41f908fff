//! A unary call per operation: what most users of gRPC do.

use std::net::SocketAddr;

use ::tonic::{Request, client::Grpc, transport::Channel};
use bytes::Bytes;
use http::uri::PathAndQuery;
use prost::Message;
use tonic_prost::ProstCodec;

use super::messages::{ECHO, Payload, SUM, SumReply, SumRequest};
use crate::{
    Error,
    load::{Caller, Client, Peer, Ready, Stop, Tally, callers},
};

pub(crate) enum Unary {}

#[derive(Debug, Clone)]
pub(crate) struct UnaryClient(Grpc<Channel>);

impl Peer for Unary {
    const NAME: &'static str = "tonic";
    type Client = UnaryClient;

    async fn serve(ready: Ready) -> Result<(), Error> {
        super::serve(ready).await
    }

    async fn connect(address: SocketAddr) -> Result<UnaryClient, Error> {
        Ok(UnaryClient(Grpc::new(super::connect(address).await?)))
    }
}

impl UnaryClient {
    async fn call<Q, R>(&mut self, path: &'static str, request: Q) -> Result<R, Error>
    where
        Q: Message + 'static,
        R: Message + Default + 'static,
    {
        self.0.ready().await?;
        let (request, path) = (Request::new(request), PathAndQuery::from_static(path));
        Ok(self.0.unary(request, path, ProstCodec::<Q, R>::default()).await?.into_inner())
    }
}

impl Client for UnaryClient {
    async fn echo(&mut self, data: &Bytes) -> Result<usize, Error> {
        let reply: Payload = self.call(ECHO, Payload { data: data.clone() }).await?;
        Ok(reply.data.len())
    }

    async fn pipeline(&mut self, in_flight: usize, stop: &Stop) -> Result<Tally, Error> {
        callers(self, in_flight, stop).await
    }
}

impl Caller for UnaryClient {
    async fn sum(&mut self, a: i32, b: i32) -> Result<i32, Error> {
        let reply: SumReply = self.call(SUM, SumRequest { a, b }).await?;
        Ok(reply.sum)
    }
}
