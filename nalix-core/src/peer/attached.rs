//! The metadata that a caller gives to a packet, or a handler to its answer.

use crate::{error::EncodeError, frame::Entries};

/// Nothing, nearly always. The first pair that cannot travel makes the whole fail when the packet is sent, since the methods
/// that add pairs are chained.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Attached(Option<Box<Result<Entries, EncodeError>>>);

impl Attached {
    pub(crate) fn push(&mut self, key: &str, value: &[u8]) {
        let all = self.0.get_or_insert_with(|| Box::new(Ok(Entries::default())));
        if let Ok(entries) = &mut **all
            && let Err(error) = entries.push(key, value)
        {
            **all = Err(error);
        }
    }

    /// Adds those of another behind these.
    #[cold]
    pub(crate) fn append(&mut self, other: Self) {
        match other.0.map(|all| *all) {
            None => {}
            Some(Ok(entries)) => entries.iter().for_each(|(key, value)| self.push(key, value)),
            Some(Err(error)) => self.0 = Some(Box::new(Err(error))),
        }
    }

    /// Whether there has never been any.
    #[inline]
    pub(crate) fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// The entries, if there are any.
    ///
    /// # Errors
    /// Why one of them cannot travel.
    #[inline]
    pub(crate) fn entries(&self) -> Result<Option<&Entries>, EncodeError> {
        match self.0.as_deref() {
            None => Ok(None),
            Some(Ok(entries)) => Ok(Some(entries)),
            Some(Err(error)) => Err(error.clone()),
        }
    }

    /// The entries; none if one of them cannot travel.
    pub(crate) fn good(&self) -> Option<&Entries> {
        self.0.as_deref().and_then(|all| all.as_ref().ok())
    }
}

impl From<Option<Entries>> for Attached {
    fn from(entries: Option<Entries>) -> Self {
        Self(entries.map(|entries| Box::new(Ok(entries))))
    }
}
