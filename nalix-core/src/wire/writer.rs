//! A bounded appender for bytes to be sent.

use super::{Limits, varint};
use crate::error::EncodeError;

/// Appends values to a buffer, up to a number of bytes.
///
/// The first error sticks: what is written after it is ignored, and [`Writer::finish`] reports it and takes back all
/// that this writer has appended.
#[derive(Debug)]
pub struct Writer<'b> {
    out: &'b mut Vec<u8>,
    start: usize,
    limit: usize,
    depth_left: u16,
    max_depth: u16,
    error: Option<EncodeError>,
}

impl<'b> Writer<'b> {
    /// Appends behind what `out` holds already, `limit` bytes at the most.
    #[inline]
    pub fn new(out: &'b mut Vec<u8>, limit: usize) -> Self {
        let start = out.len();
        let max_depth = Limits::DEFAULT.max_depth;
        Self { out, start, limit, depth_left: max_depth, max_depth, error: None }
    }

    /// How many bytes this writer has appended.
    #[inline]
    pub fn written(&self) -> usize {
        self.out.len() - self.start
    }

    /// Appends raw bytes.
    #[inline]
    pub fn put(&mut self, bytes: &[u8]) {
        if bytes.len() <= self.limit - self.written() {
            self.out.extend_from_slice(bytes);
        } else {
            self.overflow();
        }
    }

    /// Appends one byte.
    #[inline]
    pub fn put_u8(&mut self, byte: u8) {
        self.put(&[byte]);
    }

    /// Appends a canonical varint.
    #[inline]
    pub fn put_varint(&mut self, value: u64) {
        if value < 0x80 {
            self.put_u8(value as u8);
        } else {
            let mut buf = [0; varint::MAX_LEN];
            let n = varint::put(value, &mut buf);
            self.put(&buf[..n]);
        }
    }

    /// Appends a length or count as a varint.
    #[inline]
    pub fn put_len(&mut self, len: usize) {
        self.put_varint(len as u64);
    }

    /// Makes room for `n` more bytes, within the limit.
    #[inline]
    pub fn reserve(&mut self, n: usize) {
        self.out.reserve(n.min(self.limit - self.written()));
    }

    /// Records an error, unless there is one already. Nothing more is written.
    #[cold]
    pub fn fail(&mut self, error: EncodeError) {
        self.error.get_or_insert(error);
        self.out.truncate(self.start);
        self.limit = 0;
    }

    /// Whether an error has been recorded; loops over much data may stop early then.
    pub fn has_failed(&self) -> bool {
        self.error.is_some()
    }

    /// Records [`EncodeError::TooLong`] if `len` is above `limit` (the attribute `max_len`).
    #[inline]
    pub fn check_len(&mut self, field: &'static str, len: usize, limit: usize) {
        if len > limit {
            self.fail(EncodeError::TooLong { field, len, limit });
        }
    }

    /// Runs `inner` one level deeper. Every container does, so that a value which the peer would refuse for its
    /// depth is refused here.
    #[inline]
    pub fn nested(&mut self, inner: impl FnOnce(&mut Self)) {
        match self.depth_left.checked_sub(1) {
            Some(left) => {
                self.depth_left = left;
                inner(self);
                self.depth_left = left + 1;
            }
            None => self.fail(EncodeError::TooDeep { limit: self.max_depth }),
        }
    }

    /// Runs `inner` with at most `levels` further levels to go (the attribute `max_depth`).
    pub fn with_max_depth(&mut self, levels: u16, inner: impl FnOnce(&mut Self)) {
        let (left, max) = (self.depth_left, self.max_depth);
        if levels < left {
            (self.depth_left, self.max_depth) = (levels, levels);
        }
        inner(self);
        (self.depth_left, self.max_depth) = (left, max);
    }

    /// Writes a value with its length in bytes in front (what `extensible` types do).
    pub fn scope(&mut self, inner: impl FnOnce(&mut Self)) {
        let at = self.out.len();
        self.put_u8(0);
        inner(self);
        if self.has_failed() {
            return;
        }
        let len = self.out.len() - at - 1;
        let extra = varint::len(len as u64) - 1;
        if extra > 0 {
            // Rare: the body is longer than 127 bytes. Make room for the longer length and move the body behind it.
            self.put(&[0; varint::MAX_LEN][..extra]);
            if self.has_failed() {
                return;
            }
            self.out.copy_within(at + 1..at + 1 + len, at + 1 + extra);
        }
        varint::put(len as u64, &mut self.out[at..]);
    }

    /// Ends the message.
    ///
    /// # Errors
    /// The first error recorded; everything this writer appended has been removed again then.
    #[inline]
    pub fn finish(self) -> Result<usize, EncodeError> {
        match self.error {
            None => Ok(self.out.len() - self.start),
            Some(error) => Err(error),
        }
    }

    #[cold]
    fn overflow(&mut self) {
        // `fail` sets the limit to 0, so the limit of the message is read first.
        let limit = self.limit;
        self.fail(EncodeError::MessageTooLarge { limit });
    }
}
