//! The members of a group, on the clients' side.

use std::{future::pending, sync::Arc};

use nalix_client::{Options, Session};
use nalix_core::packet_controller;

use super::{
    Cover, dial,
    packets::{Clog, Join, Push, Pushed},
};
use crate::{
    Error,
    case::Fanout,
    load::{Gathering, Sender, Stop, Tally},
    target::Target,
};

/// Connections that are members, each of which tells when a message has come.
#[derive(Debug)]
pub(super) struct Group {
    gathering: Arc<Gathering>,
    fanout: Fanout,
    // They are members as long as they are open.
    _members: Vec<Session>,
}

impl Group {
    /// Connects the members, and one that will be stuck if that is wanted, and lets `asking` fill its connection.
    pub(super) async fn gather(
        target: &Target,
        cover: Cover,
        fanout: Fanout,
        stuck: bool,
        asking: &Session,
    ) -> Result<Self, Error> {
        let gathering = Arc::new(Gathering::new(fanout)?);
        let mut members = Vec::with_capacity(fanout.members + 1);
        for index in 0..fanout.members {
            let ear = Ear { gathering: Arc::clone(&gathering), index };
            let session = dial(target, cover)?.controller(ear).connect().await?;
            session.request(Join { stuck: false }).await?;
            members.push(session);
        }
        if stuck {
            let mut options = Options::default();
            // It stops reading as soon as a packet waits.
            options.max_queued = 1;
            let session = dial(target, cover)?.options(options).controller(Deaf).connect().await?;
            session.request(Join { stuck: true }).await?;
            members.push(session);
            asking.request(Clog).await?;
        }
        Ok(Self { gathering, fanout, _members: members })
    }

    pub(super) async fn run(&self, asking: &Session, stop: &Stop) -> Result<Tally, Error> {
        self.gathering.run(&mut Asking { session: asking, fanout: self.fanout }, stop).await
    }
}

/// Asks the server to send.
struct Asking<'a> {
    session: &'a Session,
    fanout: Fanout,
}

impl Sender for Asking<'_> {
    async fn push(&mut self, first: u64, burst: usize) -> Result<(), Error> {
        let Fanout { members, payload, .. } = self.fanout;
        let push = Push { first, burst: u32::try_from(burst)?, size: u32::try_from(payload)? };
        let queued = self.session.request(push).await?;
        let all = (members * burst) as u64;
        if queued == all { Ok(()) } else { Err(format!("{queued} of {all} messages were sent").into()) }
    }
}

/// Hears every message.
struct Ear {
    gathering: Arc<Gathering>,
    index: usize,
}

#[packet_controller]
impl Ear {
    #[packet]
    fn pushed(&self, pushed: Pushed) {
        self.gathering.arrived(self.index, pushed.round);
    }
}

/// Never comes to an end with the first message.
struct Deaf;

#[packet_controller]
impl Deaf {
    #[packet]
    async fn pushed(&self, _: Pushed) {
        pending::<()>().await;
    }
}
