//! Bytes in, frames out.

use std::{fmt, sync::Arc};

use bytes::{Buf, Bytes, BytesMut};

use super::{
    MAX_RECORD,
    assembly::Assembly,
    budget::{MemoryBudget, Share},
    max_error, max_items,
};
use crate::{
    CallId, Opcode,
    error::ProtocolError,
    frame::{self, Control, Entries, FRAGMENT, FrameKind, Metadata},
    handshake::Sealing,
    record::{self, Opener, RecordKind},
};

/// A frame that has arrived, or a message that has arrived in several. The payload of one frame is a slice of the receive
/// buffer.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Frame {
    /// What it is for.
    pub kind: FrameKind,
    /// Whether it is about the upload of its call; see [`Head::upload`](frame::Head::upload).
    pub upload: bool,
    /// The call it belongs to; 0 where the kind has none.
    pub id: CallId,
    /// The packet it carries; 0 where the kind has none.
    pub opcode: Opcode,
    /// Whether it came in a sealed record.
    pub sealed: bool,
    /// What travels with the packet.
    pub metadata: Metadata,
    /// The user's part of that.
    pub entries: Option<Entries>,
    /// Its payload, behind the metadata.
    pub payload: Bytes,
    /// Why the message is not whole, if it is not. There is no payload then.
    pub unfinished: Option<Unfinished>,
}

impl Frame {
    /// A place for [`Inbound::read_frame`] to put frames.
    pub fn empty() -> Self {
        Self {
            kind: FrameKind::Unknown(0),
            upload: false,
            id: CallId::new(0),
            opcode: Opcode::new(0),
            sealed: false,
            metadata: Metadata::default(),
            entries: None,
            payload: Bytes::new(),
            unfinished: None,
        }
    }
}

/// Why a message that has begun does not come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unfinished {
    /// Its sender does not go on with it.
    GivenUp,
    /// There is no room for it. The rest of it is skipped.
    OverBudget,
    /// There is no room for it now beside what other connections have in hand. The rest of it is skipped.
    Crowded,
}

/// Without what the payload says, which may be secret.
impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frame")
            .field("kind", &self.kind)
            .field("id", &self.id)
            .field("opcode", &self.opcode)
            .field("sealed", &self.sealed)
            .field("metadata", &self.metadata)
            .field("payload", &format_args!("{} bytes", self.payload.len()))
            .field("unfinished", &self.unfinished)
            .finish()
    }
}

/// A whole record of the handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Record {
    /// Its kind.
    pub kind: RecordKind,
    /// Its body.
    pub body: Bytes,
}

/// Takes received bytes apart. Any cut of the stream into reads gives the same frames.
///
/// Messages come out when they are whole: a small one may come out before a large one that has begun earlier.
pub struct Inbound {
    buf: BytesMut,
    /// The record whose frames are being handed out, and how far that has come.
    pub(super) body: Bytes,
    pub(super) at: usize,
    /// Whether that record was sealed.
    pub(super) sealed: bool,
    /// What opens sealed records, on a secured connection.
    opener: Option<Opener>,
    sealing: Sealing,
    max_record: usize,
    pub(super) max_message: usize,
    /// Whether messages may come compressed.
    pub(super) inflates: bool,
    /// Messages that are not whole yet. Made when the first one comes in fragments.
    pub(super) assembly: Option<Box<Assembly>>,
    /// How many bytes messages may have that do not fit a frame, all together.
    pub(super) reassembly: usize,
    /// How many bytes those have that are whole, and whose handlers have not finished.
    pub(super) held: usize,
    /// What this connection has of the memory that is shared with others.
    pub(super) share: Share,
    /// How many bytes to make room for before a read. Grows while reads fill it.
    chunk: usize,
    /// Whether the handshake has only just been answered, so that the peer may still turn the answer down.
    fresh: bool,
    failed: bool,
    /// How many bytes of frames have been opened, without those that do not count, and on a session that goes on with those
    /// of its earlier links.
    pub(super) counted: u64,
    /// How long the frame was that has come out last.
    pub(super) frame_len: usize,
}

impl fmt::Debug for Inbound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbound")
            .field("waiting", &(self.buf.len() + self.body.len() - self.at))
            .field("sealing", &self.sealing)
            .field("failed", &self.failed)
            .finish_non_exhaustive()
    }
}

impl Inbound {
    /// For a connection in its handshake: one record of at most `max_body` bytes at a time.
    pub fn new(max_body: usize) -> Self {
        Self {
            buf: BytesMut::new(),
            body: Bytes::new(),
            at: 0,
            sealed: false,
            opener: None,
            sealing: Sealing::None,
            max_record: max_body,
            max_message: 0,
            inflates: false,
            assembly: None,
            reassembly: usize::MAX,
            held: 0,
            share: Share::default(),
            chunk: MIN_CHUNK,
            fresh: true,
            failed: false,
            counted: 0,
            frame_len: 0,
        }
    }

    /// Sets the limits that the handshake has agreed on.
    pub fn establish(&mut self, max_message: usize) {
        self.max_message = max_message;
        self.max_record = MAX_RECORD;
    }

    /// As [`Inbound::establish`], for a secured connection.
    pub fn establish_secured(&mut self, max_message: usize, opener: Opener, sealing: Sealing) {
        self.max_message = max_message;
        self.max_record = MAX_RECORD + record::TAG;
        self.opener = Some(opener);
        self.sealing = sealing;
        // Whoever turns our answer down can say so sealed. Nobody else could be believed.
        self.fresh = false;
    }

    /// Drops what is there of messages that are not whole. To be called when nothing more is looked at.
    pub fn drop_unfinished(&mut self) {
        self.assembly = None;
    }

    /// Sets how many bytes messages may have that do not fit a frame, all together: those that are held (see
    /// [`Inbound::set_held`]) and what the others announce. Those that announce more are refused. Until it is set there is no
    /// limit.
    pub fn set_reassembly(&mut self, bytes: usize) {
        self.reassembly = bytes;
    }

    /// Lets messages come compressed. The peer must know that they may.
    pub fn set_inflation(&mut self, on: bool) {
        self.inflates = on;
    }

    /// Lets what such messages take count for a bound that other connections share.
    pub fn set_budget(&mut self, budget: Arc<MemoryBudget>) {
        self.share = Share::of(budget);
    }

    /// To be told how many bytes of messages that did not fit a frame are still in use, of those that have come out. Whatever
    /// else the connection has of the shared bound, beyond what is not whole yet, goes back.
    #[inline]
    pub fn set_held(&mut self, bytes: usize) {
        self.held = bytes;
        let kept = self.assembly.as_ref().map_or(0, |assembly| assembly.kept());
        self.share.shrink_to(kept + bytes);
    }

    /// Hands in frames that came with the handshake, to be taken as the first record. They were sealed by it.
    pub fn early(&mut self, frames: Bytes) {
        self.body = frames;
        self.at = 0;
        self.sealed = true;
    }

    /// Where the link puts what it reads: behind what is there. There is room for more than one read usually brings.
    ///
    /// Memory grows with what has been received, never with what a header claims.
    pub fn buffer(&mut self) -> &mut BytesMut {
        // The same memory as for the last read, if nobody holds a payload in it: it is still in the cache.
        if self.buf.is_empty() && self.buf.try_reclaim(self.chunk) {
            return &mut self.buf;
        }
        let spare = self.buf.capacity() - self.buf.len();
        if spare < self.chunk / 2 {
            self.buf.reserve(self.chunk.max(self.buf.len()));
        }
        &mut self.buf
    }

    /// To be told how many bytes a read has put into the buffer; adapts the room made for the next.
    pub fn received(&mut self, n: usize) {
        if n >= self.chunk / 2 && self.chunk < MAX_CHUNK {
            self.chunk *= 2;
        }
    }

    /// The next whole record of the handshake, or `None` if more bytes are needed.
    ///
    /// # Errors
    /// [`ProtocolError`] if the bytes are no record or it is too long.
    pub fn next_record(&mut self) -> Result<Option<Record>, ProtocolError> {
        match self.split_record() {
            Ok(record) => Ok(record.map(|(kind, body)| Record { kind, body })),
            Err(error) => self.fail(error, None),
        }
    }

    /// The next frame of an established connection, or `None` if more bytes are needed.
    ///
    /// # Errors
    /// [`ProtocolError`] if what has arrived is no frame. It is reported once; after it nothing more comes out.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, ProtocolError> {
        let mut frame = Frame::empty();
        Ok(self.read_frame(&mut frame)?.then_some(frame))
    }

    /// As [`Inbound::next_frame`], but puts the frame into the given place and says whether there was one: a frame that is
    /// handed through results is moved around for longer than it takes to parse it.
    ///
    /// # Errors
    /// As [`Inbound::next_frame`]; the place then holds nothing of use.
    #[inline]
    pub fn read_frame(&mut self, frame: &mut Frame) -> Result<bool, ProtocolError> {
        loop {
            while self.at == self.body.len() {
                match self.open_record() {
                    Ok(Some(Opened::Frames)) => {}
                    Ok(Some(Opened::Abort(body))) => return self.abort(body, frame),
                    Ok(None) => return Ok(false),
                    Err(error) => return self.fail(error, false),
                }
            }
            match self.split_frame(frame) {
                Ok(true) => return Ok(true),
                // A fragment, and not the last.
                Ok(false) => {}
                Err(error) => return self.fail(error, false),
            }
        }
    }

    /// Opens the first record of a secured connection, if it is whole, and says whether it was. Its frames come
    /// out as always. That it opens proves that the peer is there: what it has said before may be a recording.
    ///
    /// # Errors
    /// [`ProtocolError`] if it does not open, or is not sealed.
    pub fn confirm(&mut self) -> Result<bool, ProtocolError> {
        let opened = match self.next_kind() {
            // Anyone can write one, also where packets that are not marked may come in it.
            Some(RecordKind::Plain) => Err(ProtocolError::Unsealed { what: "first record" }),
            _ => self.open_record(),
        };
        match opened {
            Ok(opened) => Ok(opened.is_some()),
            Err(error) => self.fail(error, false),
        }
    }

    /// What the next record is, as far as its first byte has arrived.
    pub fn next_kind(&self) -> Option<RecordKind> {
        self.buf.first().and_then(|&kind| RecordKind::from_byte(kind))
    }

    /// To be asked when the link has ended.
    ///
    /// # Errors
    /// [`ProtocolError::CutRecord`] if it ended inside a record, [`ProtocolError::CutMessage`] if inside a message.
    pub fn end(&self) -> Result<(), ProtocolError> {
        if self.failed {
            return Ok(());
        }
        if self.buf.is_empty() && self.at == self.body.len() {
            let missing = self.assembly.as_ref().and_then(|assembly| assembly.missing());
            return missing.map_or(Ok(()), |missing| Err(ProtocolError::CutMessage { missing }));
        }
        let missing = match self.buf.first_chunk().map(|header| record::parse(*header)) {
            Some(Ok((_, len))) => (record::HEADER + len).saturating_sub(self.buf.len()),
            _ => record::HEADER.saturating_sub(self.buf.len()),
        };
        Err(ProtocolError::CutRecord { missing })
    }

    /// Opens the next record, if it is whole, so that its frames come next.
    fn open_record(&mut self) -> Result<Option<Opened>, ProtocolError> {
        // Lets go of the receive buffer, so that it can be used again.
        self.body = Bytes::new();
        self.at = 0;
        let Some((kind, body)) = self.split_record()? else { return Ok(None) };
        let first = std::mem::take(&mut self.fresh);
        match kind {
            RecordKind::Plain | RecordKind::Sealed => {
                self.sealed = kind == RecordKind::Sealed;
                self.counted += body.len() as u64;
                self.body = body;
                Ok(Some(Opened::Frames))
            }
            RecordKind::Abort if first => Ok(Some(Opened::Abort(body))),
            _ => Err(ProtocolError::UnexpectedRecord { found: kind.name() }),
        }
    }

    fn split_record(&mut self) -> Result<Option<(RecordKind, Bytes)>, ProtocolError> {
        if self.failed {
            // What comes behind an error has no known beginning.
            self.buf.clear();
            return Ok(None);
        }
        let Some(header) = self.buf.first_chunk() else { return Ok(None) };
        let (kind, len) = record::parse(*header)?;
        if len == 0 || len > self.max_record {
            return Err(ProtocolError::RecordLength { found: len, limit: self.max_record });
        }
        if self.buf.len() < record::HEADER + len {
            return Ok(None);
        }
        let header = *header;
        self.buf.advance(record::HEADER);
        let mut body = self.buf.split_to(len);
        match kind {
            RecordKind::Sealed => {
                // Opened where it lies: nobody else has a part of this body yet.
                let opener =
                    self.opener.as_mut().ok_or(ProtocolError::UnexpectedRecord { found: kind.name() })?;
                let len = opener.open(header, &mut body)?;
                body.truncate(len);
                if body.is_empty() {
                    return Err(ProtocolError::RecordLength { found: 0, limit: self.max_record });
                }
            }
            RecordKind::Plain if self.sealing == Sealing::All => {
                return Err(ProtocolError::Unsealed { what: "record" });
            }
            _ => {}
        }
        Ok(Some((kind, body.freeze())))
    }

    /// Whether that has made a whole frame or message.
    #[inline]
    fn split_frame(&mut self, frame: &mut Frame) -> Result<bool, ProtocolError> {
        let parsed = frame::parse(&self.body, self.at)?;
        let frame::Head { kind, compressed, more, .. } = parsed.head;
        if more || compressed || kind == FrameKind::Continue {
            return self.split_unusual(parsed, frame);
        }
        let mut payload = parsed.payload;
        self.frame_len = payload.end - self.at;
        self.at = payload.end;
        (frame.metadata, frame.entries) = if parsed.head.metadata {
            let block = Metadata::split(&self.body[payload.clone()])?;
            payload.start += block.len;
            (block.metadata, block.entries())
        } else {
            (Metadata::default(), None)
        };
        let frame::Head { upload, id, opcode, .. } = parsed.head;
        let limit = self.max_whole(kind);
        if payload.len() > limit {
            return Err(ProtocolError::MessageTooLarge { found: payload.len(), limit });
        }
        frame.payload = if payload.end < self.body.len() {
            self.body.slice(payload)
        } else {
            // The last frame takes the body itself, which saves counting one more user of it and one less.
            let mut last = std::mem::take(&mut self.body);
            self.at = 0;
            last.advance(payload.start);
            last
        };
        (frame.kind, frame.upload, frame.id, frame.opcode) = (kind, upload, id, opcode);
        frame.sealed = self.sealed;
        frame.unfinished = None;
        Ok(true)
    }

    /// Lets go of the receive buffer if nothing is left in it, so that it can be used again.
    pub(super) fn release_body(&mut self) {
        if self.at == self.body.len() {
            self.body = Bytes::new();
            self.at = 0;
        }
    }

    /// The peer has found fault with our part of the handshake, which this side took for finished. An Abort says what a
    /// Close says.
    #[cold]
    fn abort(&mut self, body: Bytes, frame: &mut Frame) -> Result<bool, ProtocolError> {
        if !matches!(Control::decode(&body), Ok(Control::Close(_))) {
            let error = ProtocolError::UnexpectedRecord { found: RecordKind::Abort.name() };
            return self.fail(error, false);
        }
        *frame = Frame { kind: FrameKind::Control, payload: body, ..Frame::empty() };
        Ok(true)
    }

    /// The longest payload of a message that comes in one frame.
    fn max_whole(&self, kind: FrameKind) -> usize {
        match kind {
            // Messages about the connection do not depend on what users send.
            FrameKind::Ping | FrameKind::Pong | FrameKind::Ack | FrameKind::Control => usize::MAX,
            FrameKind::Item => max_items(self.max_message),
            _ => max_message(kind, self.max_message).min(FRAGMENT),
        }
    }

    /// Drops everything, so that a decoder which is asked again after an error neither spins nor goes on half-way.
    #[cold]
    fn fail<T>(&mut self, error: ProtocolError, nothing: T) -> Result<T, ProtocolError> {
        self.buf = BytesMut::new();
        self.body = Bytes::new();
        self.at = 0;
        self.assembly = None;
        if std::mem::replace(&mut self.failed, true) { Ok(nothing) } else { Err(error) }
    }
}

/// What a record of an established connection holds.
enum Opened {
    Frames,
    /// The peer's goodbye.
    Abort(Bytes),
}

/// The longest message of a kind that users decide the length of.
#[inline]
pub(super) fn max_message(kind: FrameKind, limit: usize) -> usize {
    match kind {
        FrameKind::Error | FrameKind::End => max_error(limit),
        _ => limit,
    }
}

const MIN_CHUNK: usize = 4 * 1024;
const MAX_CHUNK: usize = 64 * 1024;
