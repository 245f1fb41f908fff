//! Items that do not lie in one frame: their bytes go on in the next frames of their stream.

use std::ops::Range;

use bytes::Bytes;

use crate::{
    error::{DecodeError, DecodeErrorKind},
    frame::FRAGMENT,
    wire::varint,
};

/// Where the item that starts at `at` lies in the frame; `None` if it goes on behind the end of it.
///
/// # Errors
/// [`DecodeError`] if it has no good length, or a longer one than `limit`.
#[inline]
pub(super) fn find(frame: &[u8], at: usize, limit: usize) -> Result<Option<Range<usize>>, DecodeError> {
    match length(&frame[at..], limit)? {
        Some((start, len)) if len <= frame.len() - at - start => Ok(Some(at + start..at + start + len)),
        _ => Ok(None),
    }
}

/// How many bytes the length in front takes, and what it is; `None` if it is not whole.
#[inline]
fn length(bytes: &[u8], limit: usize) -> Result<Option<(usize, usize)>, DecodeError> {
    match varint::split(bytes) {
        Ok((len, rest)) if len <= limit as u64 => Ok(Some((bytes.len() - rest.len(), len as usize))),
        Ok(_) => Err(DecodeErrorKind::Custom("an item over the message limit").into()),
        Err(error) if matches!(error.kind, DecodeErrorKind::Truncated { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// An item of which a part has come. Memory grows with what has come, and not with what is announced.
#[derive(Default)]
pub(super) struct Cut {
    /// What has come of its length, as long as that is not whole; then of itself.
    bytes: Vec<u8>,
    len: Option<usize>,
}

/// Why an item is not put together.
#[derive(Debug)]
pub(super) enum Unfit {
    Bad(DecodeError),
    /// There is no room for one of so many bytes.
    NoRoom,
}

impl Cut {
    /// Takes as much from the front of `bytes` as belongs to it, and returns how much that was. `reserve` is asked for room
    /// for a large item, once.
    ///
    /// # Errors
    /// [`Unfit`] if the item cannot be had.
    pub(super) fn add(
        &mut self,
        mut bytes: &[u8],
        limit: usize,
        reserve: impl FnOnce(usize) -> bool,
    ) -> Result<usize, Unfit> {
        let mut used = 0;
        let len = match self.len {
            Some(len) => len,
            None => {
                let before = self.bytes.len();
                self.bytes.extend_from_slice(&bytes[..bytes.len().min(varint::MAX_LEN - before)]);
                let Some((start, len)) = length(&self.bytes, limit).map_err(Unfit::Bad)? else {
                    return Ok(self.bytes.len() - before);
                };
                if len > FRAGMENT && !reserve(len) {
                    return Err(Unfit::NoRoom);
                }
                self.len = Some(len);
                self.bytes.clear();
                used = start - before;
                bytes = &bytes[used..];
                len
            }
        };
        let bytes = &bytes[..bytes.len().min(len - self.bytes.len())];
        if self.bytes.capacity() - self.bytes.len() < bytes.len() {
            let wanted = (self.bytes.capacity() * 2).max(self.bytes.len() + bytes.len()).min(len);
            self.bytes.reserve_exact(wanted - self.bytes.len());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(used + bytes.len())
    }

    /// Whether all of it has come.
    pub(super) fn is_whole(&self) -> bool {
        self.len == Some(self.bytes.len())
    }

    /// What has come of it.
    pub(super) fn into_bytes(self) -> Bytes {
        self.bytes.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::append_item;

    /// Takes items as a consumer does, from frames of these lengths, one after the other.
    fn read(stream: &[u8], lens: impl IntoIterator<Item = usize>, limit: usize) -> Vec<Vec<u8>> {
        let (mut items, mut cut, mut rest) = (Vec::new(), None::<Cut>, stream);
        for len in lens {
            let (frame, behind) = rest.split_at(len.min(rest.len()));
            rest = behind;
            let mut at = 0;
            while at < frame.len() {
                if let Some(part) = &mut cut {
                    at += part.add(&frame[at..], limit, |_| true).unwrap();
                    if part.is_whole() {
                        items.push(cut.take().unwrap().into_bytes().to_vec());
                    }
                } else if let Some(range) = find(frame, at, limit).unwrap() {
                    at = range.end;
                    items.push(frame[range].to_vec());
                } else {
                    cut = Some(Cut::default());
                }
            }
        }
        assert!(rest.is_empty() && cut.is_none());
        items
    }

    fn stream(items: &[Vec<u8>]) -> Vec<u8> {
        let mut stream = Vec::new();
        for item in items {
            append_item(&mut stream, &Raw(item), usize::MAX).unwrap();
        }
        stream
    }

    struct Raw<'a>(&'a [u8]);

    impl crate::wire::Encode for Raw<'_> {
        fn encode(&self, w: &mut crate::wire::Writer<'_>) {
            w.put(self.0);
        }
    }

    #[test]
    fn items_are_the_same_however_their_bytes_are_cut_into_frames() {
        let items: Vec<_> = [0, 1, 130, 0, 3, 200].into_iter().map(|n| vec![n as u8; n]).collect();
        let stream = stream(&items);
        for a in 1..stream.len() {
            for b in 1..=stream.len() - a {
                assert_eq!(read(&stream, [a, b, stream.len()], 200), items, "{a}, {b}");
            }
            assert_eq!(read(&stream, std::iter::repeat_n(a, stream.len()), 200), items, "{a}");
        }
    }

    #[test]
    fn an_item_over_the_limit_is_refused_by_its_length() {
        let stream = stream(&[vec![1; 300]]);
        assert!(find(&stream, 0, 299).is_err() && find(&stream, 0, 300).is_ok());
        assert!(find(&stream[..10], 0, 299).is_err(), "not only when it has come");
        let mut cut = Cut::default();
        assert_eq!(cut.add(&stream[..1], 299, |_| true).unwrap(), 1);
        assert!(matches!(cut.add(&stream[1..], 299, |_| true), Err(Unfit::Bad(_))));
    }

    #[test]
    fn a_bad_length_is_found_also_in_pieces() {
        assert!(find(&[0x80, 0], 0, 9).is_err());
        assert!(find(&[0xff; 11], 0, 9).is_err());
        let mut cut = Cut::default();
        cut.add(&[0x80], 9, |_| true).unwrap();
        assert!(matches!(cut.add(&[0], 9, |_| true), Err(Unfit::Bad(_))));
        let mut cut = Cut::default();
        let refused = (0..11).find_map(|_| cut.add(&[0xff], usize::MAX, |_| true).err());
        assert!(matches!(refused, Some(Unfit::Bad(_))));
    }

    #[test]
    fn room_is_asked_for_once_and_memory_grows_with_what_has_come() {
        let large = stream(&[vec![7; 40_000]]);
        let mut cut = Cut::default();
        assert!(matches!(cut.add(&large[..10], 1 << 20, |n| n != 40_000), Err(Unfit::NoRoom)));
        let mut cut = Cut::default();
        let mut asked = 0;
        for part in large.chunks(100) {
            let used = cut.add(part, 1 << 20, |_| {
                asked += 1;
                true
            });
            assert_eq!(used.unwrap(), part.len());
            assert!(cut.bytes.capacity() <= 2 * cut.bytes.len() + 100);
        }
        assert_eq!((asked, cut.is_whole()), (1, true));
    }
}
