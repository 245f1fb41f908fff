//! The way out for what is compressed. It is compressed before it is cut into fragments, and before it is sealed.

use super::{Appended, Cover, Outbound, max_items};
use crate::{
    error::EncodeError,
    frame::{Entries, Head, Metadata, compress::compressed},
    packet::Priority,
};

impl Outbound {
    /// Sets whether the peer can inflate what is compressed. Until it is set nothing may be.
    pub fn set_compression(&mut self, on: bool) {
        self.compresses = on;
    }

    /// Whether the peer can inflate what is compressed.
    #[inline]
    pub fn compresses(&self) -> bool {
        self.compresses
    }

    /// Appends a message that is compressed already; see [`compress`](crate::frame::compress). Whoever has done so has seen
    /// to it that the message is within its limit, and that [`Outbound::compresses`].
    ///
    /// # Errors
    /// None so far.
    pub fn append_compressed(
        &mut self,
        priority: Option<Priority>,
        cover: Cover,
        head: Head,
        metadata: (Metadata, Option<&Entries>),
        bytes: &[u8],
    ) -> Result<Appended, EncodeError> {
        let head = head.with_compressed();
        self.append_within(usize::MAX, priority, cover, head, metadata, bytes.len(), |w| w.put(bytes))
    }

    /// As [`Outbound::append_items`], and compresses all items of the frame together if there are at least `from` bytes of
    /// them.
    ///
    /// # Errors
    /// As [`Outbound::append`].
    pub fn append_items_from(
        &mut self,
        from: Option<usize>,
        priority: Option<Priority>,
        cover: Cover,
        head: Head,
        items: &[u8],
    ) -> Result<Appended, EncodeError> {
        let fits = items.len() <= max_items(self.max_message);
        if !self.compresses || !fits || from.is_none_or(|from| items.len() < from) {
            return self.append_items(priority, cover, head, items);
        }
        compressed(items, |bytes| match bytes {
            Some(bytes) => self.append_compressed(priority, cover, head, (Metadata::default(), None), bytes),
            None => self.append_items(priority, cover, head, items),
        })
    }
}
