//! What a server remembers of a session.

use std::{collections::BTreeMap, fmt};

use zeroize::Zeroizing;

use crate::{
    error::{DecodeError, DecodeErrorKind, EncodeError},
    packet::Wire,
    wire::{Limits, Reader, Writer, to_vec, varint},
};

/// Named values that a server keeps with a session, as web sessions have them: who has logged in, in which
/// room a player is. They outlive the connection, and with a store outside the process the server too.
///
/// Values are kept encoded, and read by the rules for top-level values: a type may get more fields at its end
/// (`#[wire(since = ...)]`) while sessions that hold the older form are about.
///
/// ```
/// use nalix_core::handshake::SessionData;
///
/// let mut data = SessionData::new();
/// data.insert("user", &String::from("ada"))?;
/// data.insert("score", &7u32)?;
/// assert_eq!(data.get::<String>("user")?.as_deref(), Some("ada"));
/// assert_eq!(data.get::<u32>("level")?, None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SessionData {
    values: BTreeMap<Box<str>, Zeroizing<Vec<u8>>>,
    /// The sum of [`cost`] over all values.
    size: usize,
}

impl SessionData {
    /// The most bytes that all names and encoded values, with their lengths, may take together: 64 KiB. A
    /// store holds this once for every session.
    pub const MAX_SIZE: usize = 64 * 1024;

    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a value, in place of one of the same name.
    ///
    /// # Errors
    /// [`EncodeError`] if the value breaks a rule of its type; [`EncodeError::TooLong`] if all together would
    /// take more than [`SessionData::MAX_SIZE`]. Nothing has changed then.
    pub fn insert<T: Wire>(&mut self, name: &str, value: &T) -> Result<(), EncodeError> {
        let bytes = Zeroizing::new(to_vec(value)?);
        let before = self.values.get(name).map_or(0, |old| cost(name, old.len()));
        let size = self.size - before + cost(name, bytes.len());
        if size > Self::MAX_SIZE {
            return Err(EncodeError::TooLong { field: "SessionData", len: size, limit: Self::MAX_SIZE });
        }
        self.values.insert(name.into(), bytes);
        self.size = size;
        Ok(())
    }

    /// Removes a value, and says whether there was one.
    pub fn remove(&mut self, name: &str) -> bool {
        match self.values.remove(name) {
            Some(old) => {
                self.size -= cost(name, old.len());
                true
            }
            None => false,
        }
    }

    /// The value of this name, if there is one.
    ///
    /// # Errors
    /// [`DecodeError`] if it is not of this type.
    pub fn get<T: Wire>(&self, name: &str) -> Result<Option<T>, DecodeError> {
        let Some(bytes) = self.values.get(name) else { return Ok(None) };
        T::decode(&mut Reader::new(bytes, &Limits::DEFAULT)).map(Some)
    }

    /// Whether there is a value of this name.
    pub fn contains(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// The names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.values.keys().map(|name| &**name)
    }

    /// How many values there are.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// How many of the [`SessionData::MAX_SIZE`] bytes are used.
    pub fn size(&self) -> usize {
        self.size
    }

    pub(super) fn encoded_len(&self) -> usize {
        varint::len(self.len() as u64) + self.size
    }

    pub(super) fn write(&self, w: &mut Writer<'_>) {
        w.put_len(self.len());
        for (name, value) in &self.values {
            for bytes in [name.as_bytes(), value] {
                w.put_len(bytes.len());
                w.put(bytes);
            }
        }
    }

    pub(super) fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut data = Self::default();
        for _ in 0..r.varint()? {
            let len = r.len()?;
            let name = std::str::from_utf8(r.bytes(len)?).map_err(|_| DecodeErrorKind::NotUtf8)?;
            let len = r.len()?;
            let value = r.bytes(len)?;
            data.size += cost(name, value.len());
            if data.size > Self::MAX_SIZE {
                let (found, limit) = (data.size as u64, Self::MAX_SIZE as u64);
                return Err(DecodeErrorKind::TooLong { found, limit }.into());
            }
            if data.values.insert(name.into(), Zeroizing::new(value.to_vec())).is_some() {
                return Err(DecodeErrorKind::DuplicateKey.into());
            }
        }
        Ok(data)
    }
}

/// Says how much there is, and nothing of what: values may be secret.
impl fmt::Debug for SessionData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionData({} values, {} bytes)", self.len(), self.size)
    }
}

/// The bytes that a value takes, with its name and both lengths.
fn cost(name: &str, value: usize) -> usize {
    varint::len(name.len() as u64) + name.len() + varint::len(value as u64) + value
}
