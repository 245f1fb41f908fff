//! The framing, in the shape nalix has: a record is a kind byte, a u24 length and frames; a frame is a tag byte,
//! a varint id, the u16 opcode of a request, a varint length and the payload. Little-endian.

use std::io;

use tokio::{io::AsyncReadExt, net::TcpStream};

pub(super) const ECHO: u16 = 0x1003;
pub(super) const SUM: u16 = 0x1002;
/// Makes the connection a member of the group.
pub(super) const JOIN: u16 = 0x1009;
/// Sends to the group; what and how much, says [`Push`].
pub(super) const PUSH: u16 = 0x100A;
/// What members are sent. It has the shape of a request, whose id says nothing.
pub(super) const PUSHED: u16 = 0x100C;

/// What has been read and not yet taken.
#[derive(Debug)]
pub(super) struct Inbox {
    buffer: Vec<u8>,
    taken: usize,
    filled: usize,
}

impl Inbox {
    pub(super) fn new() -> Self {
        Self::with_capacity(64 * 1024)
    }

    pub(super) fn with_capacity(bytes: usize) -> Self {
        Self { buffer: vec![0; bytes], taken: 0, filled: 0 }
    }

    /// Reads once. False at the end of the stream.
    pub(super) async fn fill(&mut self, stream: &mut TcpStream) -> io::Result<bool> {
        if self.taken > 0 {
            self.buffer.copy_within(self.taken..self.filled, 0);
            self.filled -= self.taken;
            self.taken = 0;
        }
        if self.filled == self.buffer.len() {
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        let read = stream.read(&mut self.buffer[self.filled..]).await?;
        self.filled += read;
        Ok(read > 0)
    }

    /// The body of the next record that is here in full.
    pub(super) fn next_record(&mut self) -> Option<&[u8]> {
        let unread = &self.buffer[self.taken..self.filled];
        let (header, rest) = unread.split_first_chunk::<RECORD_HEADER>()?;
        let body = rest.get(..u32::from_le_bytes([header[1], header[2], header[3], 0]) as usize)?;
        self.taken += RECORD_HEADER + body.len();
        Some(body)
    }
}

/// Frames that wait for one write, in one record.
#[derive(Debug)]
pub(super) struct Outbox(Vec<u8>);

impl Outbox {
    pub(super) fn new() -> Self {
        Self(vec![PLAIN, 0, 0, 0])
    }

    pub(super) fn request(&mut self, id: u64, opcode: u16, payload: &[u8]) {
        self.0.push(REQUEST);
        self.varint(id);
        self.0.extend_from_slice(&opcode.to_le_bytes());
        self.payload(payload);
    }

    pub(super) fn reply(&mut self, id: u64, payload: &[u8]) {
        self.0.push(REPLY);
        self.varint(id);
        self.payload(payload);
    }

    /// The record to write, or nothing when no frame waits.
    pub(super) fn finish(&mut self) -> Option<&[u8]> {
        let length = self.0.len() - RECORD_HEADER;
        self.0[1..RECORD_HEADER].copy_from_slice(&(length as u32).to_le_bytes()[..3]);
        (length > 0).then_some(&self.0)
    }

    pub(super) fn clear(&mut self) {
        self.0.truncate(RECORD_HEADER);
    }

    fn payload(&mut self, payload: &[u8]) {
        self.varint(payload.len() as u64);
        self.0.extend_from_slice(payload);
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

#[derive(Debug, PartialEq)]
pub(super) struct Frame<'a> {
    pub(super) id: u64,
    /// Zero in a reply, which has none.
    pub(super) opcode: u16,
    pub(super) payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Takes a request off the front of a record's body.
    pub(super) fn request(body: &mut &'a [u8]) -> io::Result<Self> {
        Self::parse(body, REQUEST).ok_or(io::ErrorKind::InvalidData.into())
    }

    /// Takes a reply off the front of a record's body.
    pub(super) fn reply(body: &mut &'a [u8]) -> io::Result<Self> {
        Self::parse(body, REPLY).ok_or(io::ErrorKind::InvalidData.into())
    }

    fn parse(body: &mut &'a [u8], expected: u8) -> Option<Self> {
        let (&tag, rest) = body.split_first()?;
        *body = rest;
        let id = varint(body)?;
        let opcode = if tag == REQUEST { u16::from_le_bytes(*take_array(body)?) } else { 0 };
        let length = varint(body)? as usize;
        let payload = body.get(..length)?;
        *body = &body[length..];
        (tag == expected).then_some(Self { id, opcode, payload })
    }
}

/// The two numbers of a `Sum` request.
pub(super) fn operands(mut payload: &[u8]) -> io::Result<(i32, i32)> {
    match (take_array(&mut payload), take_array(&mut payload)) {
        (Some(a), Some(b)) => Ok((i32::from_le_bytes(*a), i32::from_le_bytes(*b))),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// What a group is to be sent: so many messages of so many bytes, which begin with their number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Push {
    pub(super) first: u64,
    pub(super) burst: u32,
    pub(super) size: u32,
}

impl Push {
    pub(super) fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.first.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.burst.to_le_bytes());
        bytes[12..].copy_from_slice(&self.size.to_le_bytes());
        bytes
    }

    pub(super) fn parse(payload: &[u8]) -> io::Result<Self> {
        let bytes: &[u8; 16] = payload.try_into().map_err(|_| io::ErrorKind::InvalidData)?;
        let number = u128::from_le_bytes(*bytes);
        let push = Self { first: number as u64, burst: (number >> 64) as u32, size: (number >> 96) as u32 };
        // There must be room for the number.
        if push.size >= 8 { Ok(push) } else { Err(io::ErrorKind::InvalidData.into()) }
    }
}

/// The number of the round that a message begins with.
pub(super) fn round(mut payload: &[u8]) -> io::Result<u64> {
    let round = take_array(&mut payload).ok_or(io::ErrorKind::InvalidData)?;
    Ok(u64::from_le_bytes(*round))
}

fn varint(body: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = body.split_first()?;
        *body = rest;
        value |= u64::from(byte & 0x7F) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

fn take_array<'a, const N: usize>(body: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (taken, rest) = body.split_first_chunk()?;
    *body = rest;
    Some(taken)
}

const RECORD_HEADER: usize = 4;
// The numbers that nalix has, see the test below.
const PLAIN: u8 = 3;
const REQUEST: u8 = 2;
const REPLY: u8 = 3;

#[cfg(test)]
mod tests {
    use nalix_core::{
        CallId, Opcode,
        frame::{FrameKind, Head, Metadata},
        session::{Cover, Outbound},
    };

    use super::*;

    #[test]
    fn the_framing_is_that_of_nalix() {
        let (mut outbox, mut nalix) = (Outbox::new(), Outbound::new(1 << 20));
        let mut append = |head, payload: &[u8]| {
            nalix.append(Cover::Plain, head, Metadata::default(), payload.len(), |w| w.put(payload)).unwrap();
        };
        outbox.request(300, SUM, &[7; 8]);
        append(Head::request(CallId::new(300), Opcode::new(SUM)), &[7; 8]);
        outbox.reply(5, &[9; 1024]);
        append(Head::of_call(FrameKind::Reply, CallId::new(5)), &[9; 1024]);
        assert_eq!(outbox.finish().unwrap(), nalix.take(Vec::new()));
    }

    #[test]
    fn what_a_group_is_to_be_sent_is_read_as_it_was_written() {
        let push = Push { first: 1 << 40, burst: 8, size: 100 };
        assert_eq!(Push::parse(&push.to_bytes()).unwrap(), push);
        assert_eq!(round(&push.to_bytes()).unwrap(), push.first);
        assert!(Push::parse(&push.to_bytes()[..15]).is_err());
    }

    #[test]
    fn what_goes_out_comes_in() {
        let mut outbox = Outbox::new();
        assert_eq!(outbox.finish(), None);
        outbox.request(7, ECHO, b"hello");
        outbox.request(300, SUM, &[1, 0, 0, 0, 2, 0, 0, 0]);
        let bytes = outbox.finish().unwrap().to_vec();

        let mut inbox = Inbox::new();
        for cut in 0..bytes.len() {
            inbox.buffer[..cut].copy_from_slice(&bytes[..cut]);
            inbox.filled = cut;
            assert_eq!(inbox.next_record(), None, "a record cut at {cut}");
        }
        inbox.buffer[..bytes.len()].copy_from_slice(&bytes);
        inbox.filled = bytes.len();
        let mut record = inbox.next_record().unwrap();
        assert_eq!(Frame::request(&mut record).unwrap(), Frame { id: 7, opcode: ECHO, payload: b"hello" });
        let sum = Frame::request(&mut record).unwrap();
        assert_eq!((sum.id, sum.opcode, operands(sum.payload).unwrap()), (300, SUM, (1, 2)));
        assert!(record.is_empty());
    }
}
