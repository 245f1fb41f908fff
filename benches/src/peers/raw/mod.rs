//! The baseline: tokio and the framing of nalix, by hand. No futures per call, no dispatch, no limits, no errors to
//! report; what a framework adds shows as the distance to this.

mod client;
mod server;
mod wire;

use tokio::net::TcpStream;

use self::client::RawClient;
use crate::{
    Error,
    load::{Peer, Ready},
    peers::accept,
    target::Target,
};

pub(crate) enum Raw {}

impl Peer for Raw {
    const NAME: &'static str = "raw";
    type Client = RawClient;

    async fn serve(ready: Ready) -> Result<(), Error> {
        accept(ready.bind().await?, server::connection).await
    }

    async fn connect(target: Target) -> Result<RawClient, Error> {
        let stream = TcpStream::connect(target.address).await?;
        stream.set_nodelay(true)?;
        Ok(RawClient::new(stream))
    }
}
