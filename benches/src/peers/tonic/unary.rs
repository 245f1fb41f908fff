//! A unary call per operation: what most users of gRPC do. And the streams that a server sends.

use ::tonic::{Request, Streaming, client::Grpc, transport::Channel};
use bytes::Bytes;
use http::uri::PathAndQuery;
use prost::Message;
use tonic_prost::ProstCodec;

use super::{
    MAX_MESSAGE,
    messages::{
        ECHO, FETCH, GET_ITEMS, GET_USER, GetItemsRequest, GetUserReply, GetUserRequest, HelloMessage, Item,
        Payload, SAY_HELLO, STORE, SUM, Size, SumReply, SumRequest,
    },
};
use crate::{
    Error,
    case::{Call, Streamed, Suite, Work},
    load::{Caller, Client, Items, Mover, Peer, Ready, Source, Stop, Tally, callers, movers, readers},
    peers::users,
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

    fn does(suite: Suite) -> bool {
        suite != Suite::Fanout
    }

    async fn serve(ready: Ready, _: Suite) -> Result<(), Error> {
        super::serve(ready, TLS).await
    }

    async fn connect(target: Target, work: Work) -> Result<UnaryClient, Error> {
        let mut grpc = Grpc::new(super::connect(&target, work, TLS).await?);
        if work == Work::Large {
            grpc = grpc.max_decoding_message_size(MAX_MESSAGE);
        }
        Ok(UnaryClient(grpc))
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

    async fn calls(&mut self, call: Call, in_flight: usize, stop: &Stop) -> Result<Tally, Error> {
        callers(self, call, in_flight, stop).await
    }

    async fn streams(&mut self, streams: usize, of: Streamed, stop: &Stop) -> Result<Tally, Error> {
        readers(self, streams, of, stop).await
    }

    async fn large(&mut self, stop: &Stop) -> Result<Tally, Error> {
        movers(self, stop).await
    }
}

impl Caller for UnaryClient {
    async fn sum(&mut self, a: i32, b: i32) -> Result<i32, Error> {
        let reply: SumReply = self.call(SUM, SumRequest { a, b }).await?;
        Ok(reply.sum)
    }

    async fn get_user(&mut self, id: i64) -> Result<i64, Error> {
        let reply: GetUserReply = self.call(GET_USER, GetUserRequest { id }).await?;
        Ok(reply.user.ok_or("there is no such user")?.id)
    }

    async fn say_hello(&mut self) -> Result<i32, Error> {
        let request = HelloMessage { hello: Some(users::hello().into()) };
        let reply: HelloMessage = self.call(SAY_HELLO, request).await?;
        Ok(reply.hello.ok_or("there is no greeting")?.int)
    }
}

impl Source for UnaryClient {
    type Items = Streaming<Item>;

    async fn open(&mut self, of: Streamed) -> Result<Streaming<Item>, Error> {
        self.0.ready().await?;
        let request = Request::new(GetItemsRequest { items: of.items, size: u32::try_from(of.size)? });
        let path = PathAndQuery::from_static(GET_ITEMS);
        Ok(self.0.server_streaming(request, path, ProstCodec::default()).await?.into_inner())
    }
}

impl Items for Streaming<Item> {
    async fn next(&mut self) -> Result<Option<(i64, usize)>, Error> {
        Ok(self.message().await?.map(|Item { index, data }| (index, data.len())))
    }
}

impl Mover for UnaryClient {
    async fn store(&mut self, data: &Bytes) -> Result<usize, Error> {
        let size: Size = self.call(STORE, Payload { data: data.clone() }).await?;
        Ok(usize::try_from(size.bytes)?)
    }

    async fn fetch(&mut self, size: usize) -> Result<usize, Error> {
        let reply: Payload = self.call(FETCH, Size { bytes: size as u64 }).await?;
        Ok(reply.data.len())
    }

    async fn small(&mut self, data: &Bytes) -> Result<usize, Error> {
        self.echo(data).await
    }
}
