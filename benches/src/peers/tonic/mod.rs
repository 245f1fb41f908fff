//! tonic over cleartext HTTP/2, as its generated code would use it; written by hand because `protoc` isn't needed then.

mod duplex;
mod messages;
mod service;
mod unary;

use std::net::SocketAddr;

use ::tonic::transport::{Channel, Endpoint, Server, server::TcpIncoming};

pub(crate) use self::{duplex::Duplex, unary::Unary};
use crate::{Error, load::Ready};

async fn serve(ready: Ready) -> Result<(), Error> {
    let incoming = TcpIncoming::from(ready.bind().await?).with_nodelay(Some(true));
    Server::builder()
        .max_concurrent_streams(MAX_STREAMS)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .initial_stream_window_size(STREAM_WINDOW)
        .add_service(service::Bench)
        .serve_with_incoming(incoming)
        .await?;
    Ok(())
}

async fn connect(address: SocketAddr) -> Result<Channel, Error> {
    let endpoint = Endpoint::from_shared(format!("http://{address}"))?
        .tcp_nodelay(true)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .initial_stream_window_size(STREAM_WINDOW);
    Ok(endpoint.connect().await?)
}

// Generous, so that tonic is never held up by a setting.
const MAX_STREAMS: u32 = 20_000;
const CONNECTION_WINDOW: u32 = 10 * 1024 * 1024;
const STREAM_WINDOW: u32 = 7 * 1024 * 1024;
