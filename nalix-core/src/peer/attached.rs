//! The metadata that a caller gives to a packet.

use crate::{error::EncodeError, frame::Entries};

/// Nothing, nearly always. The first pair that cannot travel makes the whole fail when the packet is sent, since the methods
/// that add pairs are chained.
#[derive(Debug, Default)]
pub(super) struct Attached(Option<Box<Result<Entries, EncodeError>>>);

impl Attached {
    pub(super) fn push(&mut self, key: &str, value: &[u8]) {
        let all = self.0.get_or_insert_with(|| Box::new(Ok(Entries::default())));
        if let Ok(entries) = &mut **all
            && let Err(error) = entries.push(key, value)
        {
            **all = Err(error);
        }
    }

    /// The entries, if there are any.
    ///
    /// # Errors
    /// Why one of them cannot travel.
    #[inline]
    pub(super) fn entries(&self) -> Result<Option<&Entries>, EncodeError> {
        match self.0.as_deref() {
            None => Ok(None),
            Some(Ok(entries)) => Ok(Some(entries)),
            Some(Err(error)) => Err(error.clone()),
        }
    }
}
