//! The members of a group, on the clients' side.

use std::{io, sync::Arc};

use tokio::net::TcpStream;

use super::{
    client::RawClient,
    connect,
    wire::{self, Frame, Inbox, Push},
};
use crate::{
    Error,
    case::Fanout,
    load::{Gathering, Sender, Stop, Tally},
    target::Target,
};

/// Connections that are members, each with a task that reads. The tasks end with their runtime.
#[derive(Debug)]
pub(super) struct Members {
    gathering: Arc<Gathering>,
    fanout: Fanout,
}

impl Members {
    pub(super) async fn gather(target: &Target, fanout: Fanout) -> Result<Self, Error> {
        let gathering = Arc::new(Gathering::new(fanout)?);
        for index in 0..fanout.members {
            let mut client = RawClient::new(connect(target).await?);
            client.ask(wire::JOIN, &[]).await?;
            tokio::spawn(read(client.into_stream(), index, Arc::clone(&gathering)));
        }
        Ok(Self { gathering, fanout })
    }

    pub(super) async fn run(&self, asking: &mut RawClient, stop: &Stop) -> Result<Tally, Error> {
        self.gathering.run(&mut Asking { client: asking, fanout: self.fanout }, stop).await
    }
}

/// Asks the server to send.
struct Asking<'a> {
    client: &'a mut RawClient,
    fanout: Fanout,
}

impl Sender for Asking<'_> {
    async fn push(&mut self, first: u64, burst: usize) -> Result<(), Error> {
        let size = u32::try_from(self.fanout.payload)?;
        let push = Push { first, burst: u32::try_from(burst)?, size };
        self.client.ask(wire::PUSH, &push.to_bytes()).await?;
        Ok(())
    }
}

async fn read(mut stream: TcpStream, index: usize, gathering: Arc<Gathering>) -> io::Result<()> {
    let mut inbox = Inbox::with_capacity(SMALL);
    while inbox.fill(&mut stream).await? {
        while let Some(mut record) = inbox.next_record() {
            while !record.is_empty() {
                gathering.arrived(index, wire::round(Frame::request(&mut record)?.payload)?);
            }
        }
    }
    Ok(())
}

/// Bytes of a member's buffer at first: little comes at a time, and there are many members.
const SMALL: usize = 4 * 1024;
