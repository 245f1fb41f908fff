//! The users' part of a metadata block: pairs of a key and a value.

use std::{fmt, sync::Arc};

use super::metadata::{MAX_METADATA, USER};
use crate::{error::EncodeError, wire::varint};

/// The most bytes that the entries of one packet take, encoded: what a metadata block has beside a remaining time. An entry
/// takes at most 4 bytes besides its key and value.
pub const MAX_ENTRIES: usize = MAX_METADATA - 2 - varint::MAX_LEN;

/// The longest key of an entry, in bytes.
pub const MAX_KEY: usize = 64;

/// Key-value pairs that travel with a packet, such as a trace context or a token. Cheap to clone.
///
/// They keep their order, and a key may come more than once. `Debug` shows keys only: a value may be a secret.
///
/// ```
/// use nalix_core::frame::Entries;
///
/// let mut entries = Entries::default();
/// entries.push("tenant", b"blue")?;
/// assert_eq!(entries.get("tenant"), Some(&b"blue"[..]));
/// assert_eq!(entries.get("region"), None);
/// # Ok::<(), nalix_core::error::EncodeError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Entries {
    /// As in the block, and known to be well-formed. One pointer wide, since calls without any are moved around, too.
    encoded: Arc<Vec<u8>>,
}

impl fmt::Debug for Entries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(|(key, _)| key)).finish()
    }
}

impl Entries {
    /// Of entries that have been checked with [`split_entry`] and are not the user's alone.
    pub(super) fn collect<'a>(values: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut encoded = Vec::new();
        for value in values {
            put(&mut encoded, value.len());
            encoded.extend_from_slice(value);
        }
        Self { encoded: Arc::new(encoded) }
    }

    /// Adds a pair behind the others.
    ///
    /// # Errors
    /// [`EncodeError::Metadata`] if the key is empty or over [`MAX_KEY`], or if all entries together would be over
    /// [`MAX_ENTRIES`]. Nothing is added then.
    pub fn push(&mut self, key: &str, value: &[u8]) -> Result<(), EncodeError> {
        if key.is_empty() {
            return Err(EncodeError::Metadata { what: "a key is empty" });
        }
        if key.len() > MAX_KEY {
            return Err(EncodeError::Metadata { what: "a key is over 64 bytes" });
        }
        // What is far too long is not even copied.
        let len = 1 + key.len() + value.len();
        if len > MAX_ENTRIES || self.encoded.len() + 1 + varint::len(len as u64) + len > MAX_ENTRIES {
            return Err(EncodeError::Metadata { what: "all entries together are over 1,012 bytes" });
        }
        let encoded = Arc::make_mut(&mut self.encoded);
        put(encoded, len);
        encoded.push(key.len() as u8);
        encoded.extend_from_slice(key.as_bytes());
        encoded.extend_from_slice(value);
        Ok(())
    }

    /// The value of the first entry with this key.
    pub fn get(&self, key: &str) -> Option<&[u8]> {
        self.iter().find(|(found, _)| *found == key).map(|(_, value)| value)
    }

    /// All keys and values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let mut rest = self.encoded.as_slice();
        std::iter::from_fn(move || {
            let (_, behind) = rest.split_first()?;
            let (len, behind) = varint::split(behind).ok()?;
            let (value, behind) = behind.split_at_checked(usize::try_from(len).ok()?)?;
            rest = behind;
            split_entry(value)
        })
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.encoded.is_empty()
    }

    /// The entries as they stand in a block.
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.encoded
    }
}

/// The key and the value in an entry of the user's, if it is one.
pub(super) fn split_entry(value: &[u8]) -> Option<(&str, &[u8])> {
    let (&len, rest) = value.split_first()?;
    let (key, value) = rest.split_at_checked(usize::from(len))?;
    if key.is_empty() || key.len() > MAX_KEY {
        return None;
    }
    Some((std::str::from_utf8(key).ok()?, value))
}

/// The head of an entry whose value takes `len` bytes.
fn put(out: &mut Vec<u8>, len: usize) {
    let mut head = [0; 1 + varint::MAX_LEN];
    head[0] = USER;
    let n = 1 + varint::put(len as u64, &mut head[1..]);
    out.extend_from_slice(&head[..n]);
}
