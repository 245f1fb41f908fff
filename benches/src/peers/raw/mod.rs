//! The baseline: tokio and the framing of nalix, by hand. No futures per call, no dispatch, no limits, no errors to
//! report; what a framework adds shows as the distance to this.

mod client;
mod group;
mod members;
mod server;
mod wire;

use std::sync::Arc;

use tokio::net::TcpStream;

use self::{client::RawClient, group::Group, members::Members};
use crate::{
    Error,
    case::{Suite, Work},
    load::{Peer, Ready},
    peers::accept,
    target::Target,
};

pub(crate) enum Raw {}

impl Peer for Raw {
    const NAME: &'static str = "raw";
    type Client = RawClient;

    fn does(suite: Suite) -> bool {
        matches!(suite, Suite::Echo | Suite::Sum | Suite::Fanout)
    }

    async fn serve(ready: Ready, _: Suite) -> Result<(), Error> {
        let group = Arc::new(Group::default());
        accept(ready.bind().await?, move |stream| server::connection(stream, Arc::clone(&group))).await
    }

    async fn connect(target: Target, work: Work) -> Result<RawClient, Error> {
        let mut client = RawClient::new(connect(&target).await?);
        if let Work::Fanout(fanout) = work {
            client.members = Some(Members::gather(&target, fanout).await?);
        }
        Ok(client)
    }
}

async fn connect(target: &Target) -> Result<TcpStream, Error> {
    let stream = TcpStream::connect(target.address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}
