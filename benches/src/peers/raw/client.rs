//! The asking half: an echo at a time, or a window of sums.

use std::{io, time::Instant};

use bytes::Bytes;
use tokio::{io::AsyncWriteExt, net::TcpStream};

use super::{
    members::Members,
    wire::{self, Frame, Inbox, Outbox},
};
use crate::{
    Error,
    case::Call,
    load::{Client, Stop, TIMED_ONE_IN, Tally},
};

#[derive(Debug)]
pub(crate) struct RawClient {
    stream: TcpStream,
    inbox: Inbox,
    outbox: Outbox,
    /// Those whom the server sends to when this asks for it.
    pub(super) members: Option<Members>,
}

impl RawClient {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self { stream, inbox: Inbox::new(), outbox: Outbox::new(), members: None }
    }

    /// One request, and how long its reply is.
    pub(super) async fn ask(&mut self, opcode: u16, payload: &[u8]) -> Result<usize, Error> {
        self.outbox.request(0, opcode, payload);
        self.flush().await?;
        loop {
            self.fill().await?;
            if let Some(mut record) = self.inbox.next_record() {
                return Ok(Frame::reply(&mut record)?.payload.len());
            }
        }
    }

    /// The socket, of which everything that has come has been taken.
    pub(super) fn into_stream(self) -> TcpStream {
        self.stream
    }

    async fn flush(&mut self) -> io::Result<()> {
        if let Some(bytes) = self.outbox.finish() {
            self.stream.write_all(bytes).await?;
            self.outbox.clear();
        }
        Ok(())
    }

    async fn fill(&mut self) -> io::Result<()> {
        if self.inbox.fill(&mut self.stream).await? {
            Ok(())
        } else {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
    }
}

impl Client for RawClient {
    async fn echo(&mut self, data: &Bytes) -> Result<usize, Error> {
        self.ask(wire::ECHO, data).await
    }

    async fn calls(&mut self, _: Call, in_flight: usize, stop: &Stop) -> Result<Tally, Error> {
        let mut tally = Tally::new()?;
        let mut window: Vec<Slot> = (0..in_flight).map(|index| Slot::new(index as i32)).collect();
        for (id, slot) in window.iter().enumerate() {
            slot.ask(id as u64, &mut self.outbox);
        }
        self.flush().await?;
        let mut open = in_flight;
        while open > 0 {
            self.fill().await?;
            let stopped = stop.stopped();
            while let Some(mut record) = self.inbox.next_record() {
                while !record.is_empty() {
                    let reply = Frame::reply(&mut record)?;
                    let slot = window.get_mut(reply.id as usize).ok_or("a reply nobody waits for")?;
                    slot.answered(&reply, &mut tally)?;
                    if stopped {
                        open -= 1;
                    } else {
                        slot.ask(reply.id, &mut self.outbox);
                    }
                }
            }
            self.flush().await?;
        }
        Ok(tally)
    }

    async fn fanout(&mut self, stop: &Stop) -> Result<Tally, Error> {
        let members = self.members.take().ok_or("there are no members")?;
        let tally = members.run(self, stop).await;
        self.members = Some(members);
        tally
    }
}

/// One place of the window: what a caller would be elsewhere.
struct Slot {
    operand: i32,
    asked: Instant,
}

impl Slot {
    fn new(operand: i32) -> Self {
        Self { operand, asked: Instant::now() }
    }

    fn ask(&self, id: u64, outbox: &mut Outbox) {
        let mut payload = [0; 8];
        payload[..4].copy_from_slice(&self.operand.to_le_bytes());
        payload[4..].copy_from_slice(&1_i32.to_le_bytes());
        outbox.request(id, wire::SUM, &payload);
    }

    fn answered(&mut self, reply: &Frame<'_>, tally: &mut Tally) -> Result<(), Error> {
        let sum = i32::from_le_bytes(reply.payload.try_into()?);
        if sum != self.operand.wrapping_add(1) {
            return Err(format!("{} + 1 came back as {sum}", self.operand).into());
        }
        self.operand = sum;
        tally.ops += 1;
        if (reply.id as usize).is_multiple_of(TIMED_ONE_IN) {
            let now = Instant::now();
            tally.timed(now - self.asked);
            self.asked = now;
        }
        Ok(())
    }
}
