//! Buckets that have one owner.

use std::time::Instant;

use super::{
    bucket::{Refused, since},
    level::Level,
    rate::Rate,
};

/// Buckets of one owner, by number: neither shared nor locked.
#[derive(Debug, Default)]
pub(crate) struct Levels {
    /// The times of each are since its own start.
    levels: Vec<Level>,
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
        if at >= self.levels.len() {
            self.grow(at);
        }
        self.levels[at].take(rate, cost, since(start, now))
    }

    #[cold]
    fn grow(&mut self, at: usize) {
        self.levels.resize(at + 1, Level::default());
    }
}
