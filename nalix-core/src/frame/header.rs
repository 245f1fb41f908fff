//! The head of a frame.

use std::ops::Range;

use crate::{CallId, Opcode, error::ProtocolError, wire::varint};

/// What a frame is for: the low four bits of its tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FrameKind {
    /// A one-way packet.
    Notify,
    /// A packet that wants an answer.
    Request,
    /// The answer: the packet's reply type.
    Reply,
    /// The answer: the packet's error type, or a status.
    Error,
    /// Whoever asked does not want the answer any more.
    Cancel,
    /// One or more items of a stream.
    Item,
    /// The end of a stream.
    End,
    /// More items may be sent.
    Credit,
    /// Answer me.
    Ping,
    /// The answer to a ping.
    Pong,
    /// What has been received so far.
    Ack,
    /// About the connection itself.
    Control,
    /// The next fragment of a message.
    Continue,
    /// A kind that this version does not know; it is laid out like a reply.
    Unknown(u8),
}

impl FrameKind {
    const fn from_bits(bits: u8) -> Option<Self> {
        Some(match bits {
            // Zero is no kind, so that a run of zero bytes is never a run of frames.
            0 => return None,
            1 => FrameKind::Notify,
            2 => FrameKind::Request,
            3 => FrameKind::Reply,
            4 => FrameKind::Error,
            5 => FrameKind::Cancel,
            6 => FrameKind::Item,
            7 => FrameKind::End,
            8 => FrameKind::Credit,
            9 => FrameKind::Ping,
            10 => FrameKind::Pong,
            11 => FrameKind::Ack,
            12 => FrameKind::Control,
            13 => FrameKind::Continue,
            other => FrameKind::Unknown(other),
        })
    }

    const fn bits(self) -> u8 {
        match self {
            FrameKind::Notify => 1,
            FrameKind::Request => 2,
            FrameKind::Reply => 3,
            FrameKind::Error => 4,
            FrameKind::Cancel => 5,
            FrameKind::Item => 6,
            FrameKind::End => 7,
            FrameKind::Credit => 8,
            FrameKind::Ping => 9,
            FrameKind::Pong => 10,
            FrameKind::Ack => 11,
            FrameKind::Control => 12,
            FrameKind::Continue => 13,
            FrameKind::Unknown(bits) => bits & KIND_MASK,
        }
    }

    const fn has_id(self) -> bool {
        !matches!(
            self,
            FrameKind::Notify | FrameKind::Ping | FrameKind::Pong | FrameKind::Ack | FrameKind::Control
        )
    }

    const fn has_opcode(self) -> bool {
        matches!(self, FrameKind::Notify | FrameKind::Request)
    }

    /// Uploads have frames of the same kinds as streams, in the other direction.
    const fn may_be_of_upload(self) -> bool {
        matches!(self, FrameKind::Cancel | FrameKind::Item | FrameKind::End | FrameKind::Credit)
    }

    /// Whether it is of a packet, an answer or a stream, and not of the connection alone.
    pub(crate) const fn is_of_application(self) -> bool {
        !matches!(
            self,
            FrameKind::Ping | FrameKind::Pong | FrameKind::Ack | FrameKind::Control | FrameKind::Unknown(_)
        )
    }

    /// Only what can be as long as users like is ever cut.
    pub(crate) const fn may_go_on(self) -> bool {
        matches!(
            self,
            FrameKind::Notify
                | FrameKind::Request
                | FrameKind::Reply
                | FrameKind::Error
                | FrameKind::Continue
        )
    }

    /// Only what users say is compressed, and fragments travel as their message does.
    const fn may_be_compressed(self) -> bool {
        matches!(
            self,
            FrameKind::Notify | FrameKind::Request | FrameKind::Reply | FrameKind::Error | FrameKind::Item
        )
    }

    /// Only packets carry metadata, and what a call ends with.
    const fn may_have_metadata(self) -> bool {
        matches!(
            self,
            FrameKind::Notify | FrameKind::Request | FrameKind::Reply | FrameKind::Error | FrameKind::End
        )
    }
}

/// Everything of a frame but its payload. Fields that the kind does not have are zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// What the frame is for.
    pub kind: FrameKind,
    /// Whether the payload starts with a metadata block.
    pub metadata: bool,
    /// Whether the message is compressed; see [`compress`](super::compress).
    pub compressed: bool,
    /// Whether it is about the upload of its call. Without it, Item and End go from the side that was asked to the side
    /// that asks, Cancel and Credit the other way; with it, each goes in the opposite direction.
    pub upload: bool,
    /// Whether more fragments of the message follow, in frames of the kind [`FrameKind::Continue`].
    pub more: bool,
    /// The call it belongs to.
    pub id: CallId,
    /// The packet it carries.
    pub opcode: Opcode,
}

impl Head {
    /// The head of a frame about a call.
    pub const fn of_call(kind: FrameKind, id: CallId) -> Self {
        let opcode = Opcode::new(0);
        Self { kind, metadata: false, compressed: false, upload: false, more: false, id, opcode }
    }

    /// The head of a frame about the upload of a call.
    pub const fn of_upload(kind: FrameKind, id: CallId) -> Self {
        Self { upload: true, ..Self::of_call(kind, id) }
    }

    /// The head of a request.
    pub const fn request(id: CallId, opcode: Opcode) -> Self {
        Self { opcode, ..Self::of_call(FrameKind::Request, id) }
    }

    /// The head of a one-way packet.
    pub const fn notify(opcode: Opcode) -> Self {
        Self { kind: FrameKind::Notify, opcode, ..Self::of_call(FrameKind::Notify, CallId::new(0)) }
    }

    /// The head of a frame that belongs to no call and carries no packet.
    pub const fn plain(kind: FrameKind) -> Self {
        Self::of_call(kind, CallId::new(0))
    }

    /// Says that the payload starts with a metadata block.
    #[must_use]
    pub const fn with_metadata(mut self) -> Self {
        self.metadata = true;
        self
    }

    /// Says that the message is compressed.
    #[must_use]
    pub const fn with_compressed(mut self) -> Self {
        self.compressed = true;
        self
    }

    /// Says that more fragments follow.
    #[must_use]
    pub const fn with_more(mut self) -> Self {
        self.more = true;
        self
    }
}

/// A frame found in a record's body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parsed {
    /// Its head.
    pub head: Head,
    /// Where its payload lies in the body; the next frame starts at its end.
    pub payload: Range<usize>,
}

/// Appends a frame's head, without the length that follows it.
#[inline]
pub fn put_head(out: &mut Vec<u8>, head: Head) {
    put_head_and_room(out, head, 0);
}

/// Appends a frame's head, and `room` bytes for the length that follows it. Returns where those are.
#[inline]
pub(crate) fn put_head_and_room(out: &mut Vec<u8>, head: Head, room: usize) -> usize {
    let flag = |set: bool, bit: u8| if set { bit } else { 0 };
    let tag = head.kind.bits()
        | flag(head.metadata, METADATA)
        | flag(head.compressed, COMPRESSED)
        | flag(head.upload, UPLOAD)
        | flag(head.more, MORE);
    // Put together in a register: to write bytes one by one and copy them at once makes the processor wait.
    let mut word = u64::from(tag);
    let mut n = 1;
    if head.kind.has_id() {
        let (bits, len) = varint::short(u64::from(head.id.get()));
        word |= bits << 8;
        n += len;
    }
    if head.kind.has_opcode() {
        word |= u64::from(head.opcode.get()) << (8 * n);
        n += 2;
    }
    let start = out.len();
    out.extend_from_slice(&word.to_le_bytes());
    if n + room > size_of_val(&word) {
        out.extend_from_slice(&[0; 8]);
    }
    out.truncate(start + n + room);
    start + n
}

/// Finds the frame that starts at `at` in the body of a record.
///
/// # Errors
/// [`ProtocolError::BadFrame`] if there is no whole, well-formed frame.
#[inline]
pub fn parse(body: &[u8], at: usize) -> Result<Parsed, ProtocolError> {
    let rest = body.get(at..).unwrap_or_default();
    let (&tag, mut rest) = rest.split_first().ok_or(bad("empty"))?;
    let kind = FrameKind::from_bits(tag & KIND_MASK).ok_or(bad("kind 0"))?;
    let metadata = tag & METADATA != 0;
    let upload = tag & UPLOAD != 0;
    let compressed = tag & COMPRESSED != 0;
    if compressed && !kind.may_be_compressed() {
        return Err(bad("compressed flag on a frame that has none"));
    }
    if upload && !kind.may_be_of_upload() {
        return Err(bad("upload flag on a frame that has none"));
    }
    // The end of an upload is no end of its call.
    if metadata && (upload || !kind.may_have_metadata()) {
        return Err(bad("metadata on a frame that has none"));
    }
    let more = tag & MORE != 0;
    if more && !kind.may_go_on() {
        return Err(bad("more fragments of what is never cut"));
    }
    let mut id = 0;
    if kind.has_id() {
        let value;
        (value, rest) = short_varint(rest)?;
        id = value;
    }
    let mut opcode = 0;
    if kind.has_opcode() {
        let (bytes, behind) = rest.split_first_chunk::<2>().ok_or(bad("cut opcode"))?;
        opcode = u16::from_le_bytes(*bytes);
        rest = behind;
    }
    let (len, rest) = short_varint(rest)?;
    let len = len as usize;
    if len > rest.len() {
        return Err(bad("payload longer than its record"));
    }
    let start = body.len() - rest.len();
    let (id, opcode) = (CallId::new(id), Opcode::new(opcode));
    let head = Head { kind, metadata, compressed, upload, more, id, opcode };
    Ok(Parsed { head, payload: start..start + len })
}

#[inline]
fn short_varint(input: &[u8]) -> Result<(u32, &[u8]), ProtocolError> {
    let (value, rest) = varint::split(input).map_err(|_| bad("bad varint"))?;
    Ok((u32::try_from(value).map_err(|_| bad("varint over 32 bits"))?, rest))
}

const fn bad(what: &'static str) -> ProtocolError {
    ProtocolError::BadFrame { what }
}

const KIND_MASK: u8 = 0x0f;
const COMPRESSED: u8 = 0x20;
const METADATA: u8 = 0x40;
const UPLOAD: u8 = 0x80;
const MORE: u8 = 0x10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_round_trip() {
        for bits in 1..16 {
            let kind = FrameKind::from_bits(bits).unwrap();
            for id in [0, 1, 127, 128, u32::MAX] {
                let upload = kind.may_be_of_upload() && id % 2 == 1;
                let head = Head {
                    kind,
                    metadata: kind.may_have_metadata() && !upload,
                    compressed: kind.may_be_compressed() && id != 127,
                    upload,
                    more: kind.may_go_on() && id != 1,
                    id: CallId::new(if kind.has_id() { id } else { 0 }),
                    opcode: Opcode::new(if kind.has_opcode() { 0xabcd } else { 0 }),
                };
                let mut out = Vec::new();
                put_head(&mut out, head);
                out.extend_from_slice(&[3, 1, 2, 3, 99]);
                let parsed = parse(&out, 0).unwrap();
                assert_eq!(parsed.head, head);
                assert_eq!(&out[parsed.payload], [1, 2, 3]);
            }
        }
    }

    #[test]
    fn a_frame_must_end_within_its_record() {
        let mut out = Vec::new();
        put_head(&mut out, Head::request(CallId::new(300), Opcode::new(0x1001)));
        out.extend_from_slice(&[2, 7, 7]);
        for cut in 0..out.len() {
            assert!(parse(&out[..cut], 0).is_err(), "{cut}");
        }
        assert!(parse(&out, out.len()).is_err());
        assert!(parse(&out, usize::MAX).is_err());
    }

    #[test]
    fn reserved_bits_and_kinds_are_checked() {
        assert!(parse(&[0x00, 0x00, 0x00], 0).is_err());
        assert!(parse(&[0x83, 0x00, 0x00], 0).is_err());
        for never_compressed in [0x25, 0x27, 0x28, 0x29, 0x2a, 0x2b, 0x2c, 0x2d, 0x2e, 0x2f] {
            assert!(parse(&[never_compressed, 0x00, 0x00], 0).is_err(), "{never_compressed:#x}");
        }
        for never_cut in [0x15, 0x17, 0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x1e, 0x1f] {
            assert!(parse(&[never_cut, 0x00, 0x00], 0).is_err(), "{never_cut:#x}");
        }
        // Metadata belongs to the first fragment.
        assert!(parse(&[0x4d, 0x00, 0x00], 0).is_err());
        assert!(parse(&[0x5d, 0x00, 0x00], 0).is_err());
        for without_metadata in [0x45, 0x46, 0x48, 0x49, 0x4a, 0x4b, 0x4c, 0x4e, 0x4f, 0xc7] {
            assert!(parse(&[without_metadata, 0x00, 0x00], 0).is_err(), "{without_metadata:#x}");
        }
        assert!(matches!(parse(&[0x0f, 5, 0], 0).unwrap().head.kind, FrameKind::Unknown(15)));
    }
}
