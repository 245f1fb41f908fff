//! One bidirectional stream per connection, a message each way per echo: the fastest that gRPC has. It has no calls, so
//! it takes part in nothing else.

use ::tonic::{Request, Streaming, client::Grpc};
use bytes::Bytes;
use http::uri::PathAndQuery;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic_prost::ProstCodec;

use super::messages::{ECHO_STREAM, Payload};
use crate::{
    Error,
    case::{Suite, Work},
    load::{Client, Peer, Ready},
    target::Target,
};

/// Over TLS or in the clear.
pub(crate) struct DuplexOver<const TLS: bool>;

pub(crate) type Duplex = DuplexOver<false>;
pub(crate) type DuplexTls = DuplexOver<true>;

#[derive(Debug)]
pub(crate) struct DuplexClient {
    requests: mpsc::Sender<Payload>,
    replies: Streaming<Payload>,
}

impl<const TLS: bool> Peer for DuplexOver<TLS> {
    const NAME: &'static str = if TLS { "tonic-duplex-tls" } else { "tonic-duplex" };
    const SECURED: bool = TLS;
    type Client = DuplexClient;

    fn does(suite: Suite) -> bool {
        suite == Suite::Echo
    }

    async fn serve(ready: Ready, _: Suite) -> Result<(), Error> {
        super::serve(ready, TLS).await
    }

    async fn connect(target: Target, work: Work) -> Result<DuplexClient, Error> {
        let mut grpc = Grpc::new(super::connect(&target, work, TLS).await?);
        grpc.ready().await?;
        let (requests, outgoing) = mpsc::channel(16);
        let (request, path) =
            (Request::new(ReceiverStream::new(outgoing)), PathAndQuery::from_static(ECHO_STREAM));
        let replies = grpc.streaming(request, path, ProstCodec::default()).await?.into_inner();
        Ok(DuplexClient { requests, replies })
    }
}

impl Client for DuplexClient {
    async fn echo(&mut self, data: &Bytes) -> Result<usize, Error> {
        self.requests.send(Payload { data: data.clone() }).await?;
        let reply = self.replies.message().await?.ok_or("the stream has ended")?;
        Ok(reply.data.len())
    }
}
