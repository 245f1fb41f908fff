//! Buckets that have one owner.

use std::time::Instant;

use super::{
    bucket::{Refused, advance, since},
    rate::Rate,
};

/// Buckets of one owner, by number: neither shared nor locked.
#[derive(Debug, Default)]
pub(crate) struct Levels {
    /// When each is full again, in nanoseconds since its own start.
    full_at: Vec<u64>,
}

impl Levels {
    /// Takes `cost` tokens from the bucket with this number, which must always be given with the same rate and start.
    ///
    /// # Errors
    /// [`Refused`] if there are not as many.
    #[inline]
    pub(crate) fn take(
        &mut self,
        at: usize,
        rate: &Rate,
        cost: u32,
        start: Instant,
        now: Instant,
    ) -> Result<(), Refused> {
        if at >= self.full_at.len() {
            self.grow(at);
        }
        self.full_at[at] = advance(rate, self.full_at[at], cost, since(start, now))?;
        Ok(())
    }

    #[cold]
    fn grow(&mut self, at: usize) {
        self.full_at.resize(at + 1, 0);
    }
}
