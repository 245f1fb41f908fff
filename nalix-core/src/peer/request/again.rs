//! What sessions need, which make a call over one connection after the other.

use std::task::{Context, Poll};

use tokio::time::Instant;

use super::{Answered, RequestFuture, Stage};
use crate::{Connection, packet::Request, peer::Response};

/// Which packets are kept when they have been sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keeps {
    Nothing,
    /// Those that fit a frame: what is larger would be in memory twice while it waits to be written.
    Small,
    All,
}

impl Keeps {
    #[inline]
    pub(super) fn packet(self, large: bool) -> bool {
        match self {
            Keeps::Nothing => false,
            Keeps::Small => !large,
            Keeps::All => true,
        }
    }
}

/// None of it is for users.
#[doc(hidden)]
impl<P: Request> RequestFuture<P> {
    /// The connection that it is made on.
    pub fn __connection(&self) -> &Connection {
        &self.connection
    }

    /// Keeps the packet when it has been sent, so that it can be sent again.
    pub fn __keep(&mut self) {
        self.keeps = Keeps::All;
    }

    /// Keeps the packet if it is small, so that it can be sent again if it turns out that it has not been written.
    #[inline]
    pub fn __keep_small(&mut self) {
        self.keeps = Keeps::Small;
    }

    /// Whether the packet is still there.
    pub fn __has_packet(&self) -> bool {
        matches!(self.stage, Stage::Unsent(_) | Stage::Queued(..) | Stage::Done(Some(_)))
    }

    /// When it ends at the latest. To be read from the first poll on.
    pub fn __deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Starts to count the time, if that has not been done, and returns when it ends at the latest.
    pub fn __fix_deadline(&mut self) -> Option<Instant> {
        let timeout = self.timeout.take().and_then(|timeout| Instant::now().checked_add(timeout));
        self.deadline = [self.deadline, timeout].into_iter().flatten().min();
        self.deadline
    }

    /// Sets when this attempt ends at the latest. It must not have been polled since it was begun.
    pub fn __set_deadline(&mut self, deadline: Option<Instant>) {
        (self.timeout, self.deadline) = (None, deadline);
    }

    /// How many bytes the packet may have, as far as that is known before it is encoded, while it is not sent or kept.
    pub fn __size_hint(&self) -> usize {
        match &self.stage {
            Stage::Unsent(packet) | Stage::Queued(packet, _) | Stage::Done(Some(packet)) => {
                packet.size_hint()
            }
            _ => 0,
        }
    }

    /// Begins again over a connection, once it has resolved or before it is polled. Returns whether the packet was still there.
    pub fn __restart(&mut self, connection: Connection) -> bool {
        match std::mem::replace(&mut self.stage, Stage::Done(None)) {
            Stage::Done(Some(packet)) | Stage::Unsent(packet) => {
                (self.connection, self.stage) = (connection, Stage::Unsent(packet));
                true
            }
            other => {
                self.stage = other;
                false
            }
        }
    }

    /// As `poll`, with the metadata that comes along.
    pub fn __poll_response(&mut self, cx: &Context<'_>) -> Poll<Answered<P>> {
        self.poll_with(cx).map(|(result, entries)| match result {
            Ok(reply) => Ok(Response::received(reply, entries)),
            Err(error) => Err(Response::received(error, entries)),
        })
    }
}
