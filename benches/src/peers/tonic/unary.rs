//! A unary call per operation: what most users of gRPC do.

use ::tonic::{Request, client::Grpc, transport::Channel};
use bytes::Bytes;
use http::uri::PathAndQuery;
use prost::Message;
use tonic_prost::ProstCodec;

use super::messages::{ECHO, Payload, SUM, SumReply, SumRequest};
use crate::{
    Error,
    load::{Caller, Client, Peer, Ready, Stop, Tally, callers},
    target::Target,
};

/// Over TLS or in the clear.
pub(crate) struct UnaryOver<const TLS: bool>;

pub(crate) type Unary = UnaryOver<false>;
pub(crate) type UnaryTls = UnaryOver<true>;

#[derive(Debug, Clone)]
pub(crate) struct UnaryClient(Grpc<Channel>);

impl<const TLS: bool> Peer for UnaryOver<TLS> {
    const NAME: &'static str = if TLS { "tonic-tls" } else { "tonic" };
    const SECURED: bool = TLS;
    type Client = UnaryClient;

    async fn serve(ready: Ready) -> Result<(), Error> {
        super::serve(ready, TLS).await
    }

    async fn connect(target: Target) -> Result<UnaryClient, Error> {
        Ok(UnaryClient(Grpc::new(super::connect(&target, TLS).await?)))
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
