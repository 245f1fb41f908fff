//! Items of streams: values with their length in front.

use super::{Encode, Writer, varint};
use crate::error::EncodeError;

/// Appends a value of at most `limit` bytes with its length in front.
///
/// # Errors
/// As [`Writer::finish`]; `out` is as it was then.
#[inline]
pub(crate) fn append_item<T: Encode + ?Sized>(
    out: &mut Vec<u8>,
    value: &T,
    limit: usize,
) -> Result<(), EncodeError> {
    let at = out.len();
    // Left free for the length; nearly always right, and corrected if not.
    let room = varint::len(value.size_hint() as u64);
    // A byte alone needs no call, and most items are short.
    if room == 1 {
        out.push(0);
    } else {
        out.extend_from_slice(&[0; varint::MAX_LEN][..room]);
    }
    let mut w = Writer::new(out, limit);
    value.encode(&mut w);
    if let Err(error) = w.finish() {
        out.truncate(at);
        return Err(error);
    }
    let start = at + room;
    let len = out.len() - start;
    let width = varint::len(len as u64);
    if width == 1 && room == 1 {
        out[at] = len as u8;
        return Ok(());
    }
    if width != room {
        if width > room {
            out.extend_from_slice(&[0; varint::MAX_LEN][..width - room]);
        }
        out.copy_within(start..start + len, at + width);
        out.truncate(at + width + len);
    }
    varint::put(len as u64, &mut out[at..]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Says that it is as long as told, and is not.
    struct Misjudged(Vec<u8>, usize);

    impl Encode for Misjudged {
        fn encode(&self, w: &mut Writer<'_>) {
            w.put(&self.0);
        }

        fn size_hint(&self) -> usize {
            self.1
        }
    }

    #[test]
    fn the_length_in_front_is_right_whatever_the_hint_says() {
        for len in [0, 1, 127, 128, 300, 20_000] {
            for hint in [0, 1, 127, 128, 20_000] {
                let mut out = vec![7];
                append_item(&mut out, &Misjudged(vec![9; len], hint), usize::MAX).unwrap();
                let (found, rest) = varint::split(&out[1..]).unwrap();
                assert_eq!((out[0], found as usize), (7, len));
                assert_eq!(rest, vec![9; len]);
            }
        }
    }

    #[test]
    fn an_item_over_the_limit_leaves_no_trace() {
        let mut out = vec![7];
        assert!(append_item(&mut out, &Misjudged(vec![9; 11], 11), 10).is_err());
        assert_eq!(out, [7]);
        append_item(&mut out, &Misjudged(vec![9; 10], 10), 10).unwrap();
    }
}
