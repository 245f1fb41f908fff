//! Members that are sent to in a loop of writes.

use std::{
    io,
    sync::{Mutex, PoisonError},
};

use tokio::{
    io::AsyncReadExt,
    net::{TcpStream, tcp::OwnedWriteHalf},
};

use super::wire::{self, Outbox, Push};
use crate::counters::{self, ENCODES, SKIPPED, WRITES};

#[derive(Debug, Default)]
pub(super) struct Group(Mutex<Vec<OwnedWriteHalf>>);

impl Group {
    /// Lets a connection in, until it ends. It has nothing to say any more.
    pub(super) async fn keep(&self, stream: TcpStream) -> io::Result<()> {
        let (mut read, write) = stream.into_split();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(write);
        // It never leaves: the process ends before there is another group.
        match read.read(&mut [0]).await? {
            0 => Ok(()),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Writes each message to every member in turn. Who has no room for it is left out.
    pub(super) fn send(&self, push: Push) {
        let members = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut payload = vec![0; push.size as usize];
        let mut skipped = 0;
        let mut outbox = Outbox::new();
        for round in push.first..push.first.saturating_add(push.burst.into()) {
            payload[..8].copy_from_slice(&round.to_le_bytes());
            outbox.clear();
            outbox.request(0, wire::PUSHED, &payload);
            let Some(message) = outbox.finish() else { continue };
            for member in members.iter() {
                if !matches!(member.try_write(message), Ok(n) if n == message.len()) {
                    skipped += 1;
                }
            }
        }
        counters::add(&ENCODES, push.burst.into());
        counters::add(&WRITES, u64::from(push.burst) * members.len() as u64);
        counters::add(&SKIPPED, skipped);
    }
}
