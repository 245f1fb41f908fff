//! Bytes in, frames out.

use std::fmt;

use bytes::{Buf, Bytes, BytesMut};

use super::{max_error, max_items, max_record};
use crate::{
    CallId, Opcode,
    error::ProtocolError,
    frame::{self, Control, Entries, FrameKind, Metadata},
    handshake::Sealing,
    record::{self, Opener, RecordKind},
};

/// A frame that has arrived. Its payload is a slice of the receive buffer.
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
pub struct Inbound {
    buf: BytesMut,
    /// The record whose frames are being handed out, and how far that has come.
    body: Bytes,
    at: usize,
    /// Whether that record was sealed.
    sealed: bool,
    /// What opens sealed records, on a secured connection.
    opener: Option<Opener>,
    sealing: Sealing,
    max_record: usize,
    max_message: usize,
    /// How many bytes to make room for before a read. Grows while reads fill it.
    chunk: usize,
    /// Whether the handshake has only just been answered, so that the peer may still turn the answer down.
    fresh: bool,
    failed: bool,
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
            chunk: MIN_CHUNK,
            fresh: true,
            failed: false,
        }
    }

    /// Sets the limits that the handshake has agreed on.
    pub fn establish(&mut self, max_message: usize) {
        self.max_message = max_message;
        self.max_record = max_record(max_message);
    }

    /// As [`Inbound::establish`], for a secured connection.
    pub fn establish_secured(&mut self, max_message: usize, opener: Opener, sealing: Sealing) {
        self.max_message = max_message;
        self.max_record = max_record(max_message) + record::TAG;
        self.opener = Some(opener);
        self.sealing = sealing;
        // Whoever turns our answer down can say so sealed. Nobody else could be believed.
        self.fresh = false;
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
            Err(error) => self.fail(error),
        }
    }

    /// The next frame of an established connection, or `None` if more bytes are needed.
    ///
    /// # Errors
    /// [`ProtocolError`] if what has arrived is no frame. It is reported once; after it nothing more comes out.
    #[inline]
    pub fn next_frame(&mut self) -> Result<Option<Frame>, ProtocolError> {
        while self.at == self.body.len() {
            match self.open_record() {
                Ok(Some(Opened::Frames)) => {}
                Ok(Some(Opened::Abort(body))) => return self.abort(body),
                Ok(None) => return Ok(None),
                Err(error) => return self.fail(error),
            }
        }
        match self.split_frame() {
            Ok(frame) => Ok(Some(frame)),
            Err(error) => self.fail(error),
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
            Err(error) => self.fail::<()>(error).map(|_| false),
        }
    }

    /// What the next record is, as far as its first byte has arrived.
    pub fn next_kind(&self) -> Option<RecordKind> {
        self.buf.first().and_then(|&kind| RecordKind::from_byte(kind))
    }

    /// To be asked when the link has ended.
    ///
    /// # Errors
    /// [`ProtocolError::CutRecord`] if it ended inside a record.
    pub fn end(&self) -> Result<(), ProtocolError> {
        if self.failed || (self.buf.is_empty() && self.at == self.body.len()) {
            return Ok(());
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

    fn split_frame(&mut self) -> Result<Frame, ProtocolError> {
        let parsed = frame::parse(&self.body, self.at)?;
        let mut payload = parsed.payload;
        self.at = payload.end;
        let (metadata, entries) = if parsed.head.metadata {
            let block = Metadata::split(&self.body[payload.clone()])?;
            payload.start += block.len;
            (block.metadata, block.entries())
        } else {
            (Metadata::default(), None)
        };
        let frame::Head { kind, upload, id, opcode, .. } = parsed.head;
        let limit = self.max_payload(kind);
        if payload.len() > limit {
            return Err(ProtocolError::MessageTooLarge { found: payload.len(), limit });
        }
        let payload = if payload.end < self.body.len() {
            self.body.slice(payload)
        } else {
            // The last frame takes the body itself, which saves counting one more user of it and one less.
            let mut last = std::mem::take(&mut self.body);
            self.at = 0;
            last.advance(payload.start);
            last
        };
        Ok(Frame { kind, upload, id, opcode, sealed: self.sealed, metadata, entries, payload })
    }

    /// The peer has found fault with our part of the handshake, which this side took for finished. An Abort says what a
    /// Close says.
    #[cold]
    fn abort(&mut self, body: Bytes) -> Result<Option<Frame>, ProtocolError> {
        if !matches!(Control::decode(&body), Ok(Control::Close(_))) {
            return self.fail(ProtocolError::UnexpectedRecord { found: RecordKind::Abort.name() });
        }
        let frame::Head { kind, upload, id, opcode, .. } = frame::Head::plain(FrameKind::Control);
        Ok(Some(Frame {
            kind,
            upload,
            id,
            opcode,
            sealed: false,
            metadata: Metadata::default(),
            entries: None,
            payload: body,
        }))
    }

    fn max_payload(&self, kind: FrameKind) -> usize {
        match kind {
            FrameKind::Error | FrameKind::End => max_error(self.max_message),
            FrameKind::Item => max_items(self.max_message),
            // Messages about the connection do not depend on what users send.
            FrameKind::Ping | FrameKind::Pong | FrameKind::Control => usize::MAX,
            _ => self.max_message,
        }
    }

    /// Drops everything, so that a decoder which is asked again after an error neither spins nor goes on half-way.
    #[cold]
    fn fail<T>(&mut self, error: ProtocolError) -> Result<Option<T>, ProtocolError> {
        self.buf = BytesMut::new();
        self.body = Bytes::new();
        self.at = 0;
        if std::mem::replace(&mut self.failed, true) { Ok(None) } else { Err(error) }
    }
}

/// What a record of an established connection holds.
enum Opened {
    Frames,
    /// The peer's goodbye.
    Abort(Bytes),
}

const MIN_CHUNK: usize = 4 * 1024;
const MAX_CHUNK: usize = 64 * 1024;
