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

    /// Writes the message to every member in turn. Who has no room for it is left out.
    pub(super) fn send(&self, push: Push) {
        let mut payload = vec![0; push.size as usize];
        payload[..8].copy_from_slice(&push.round.to_le_bytes());
        let mut outbox = Outbox::new();
        outbox.request(0, wire::PUSHED, &payload);
        counters::add(&ENCODES, 1);
        let Some(message) = outbox.finish() else { return };
        let members = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut skipped = 0;
        for member in members.iter() {
            if !matches!(member.try_write(message), Ok(n) if n == message.len()) {
                skipped += 1;
            }
        }
        counters::add(&WRITES, members.len() as u64);
        counters::add(&SKIPPED, skipped);
    }
}
