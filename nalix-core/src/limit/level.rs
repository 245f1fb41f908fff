//! A bucket's one number, for tables that keep a rate and a clock for many.

use super::{
    bucket::{Refused, advance},
    rate::Rate,
};

/// How full a bucket is: what is left of a [`Bucket`](super::Bucket) without its rate, its clock and its lock. New ones are
/// full.
///
/// Times are nanoseconds since whatever moment the owner counts from, the same for every call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Level {
    full_at: u64,
}

impl Level {
    /// Takes `cost` tokens, if there are as many.
    ///
    /// # Errors
    /// [`Refused`] if there are not. Nothing is taken then.
    #[inline]
    pub fn take(&mut self, rate: &Rate, cost: u32, now: u64) -> Result<(), Refused> {
        self.full_at = advance(rate, self.full_at, cost, now)?;
        Ok(())
    }

    /// Whether nothing is missing, so that it may be forgotten.
    #[inline]
    pub fn is_full(&self, now: u64) -> bool {
        self.full_at <= now
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn it_is_full_again_when_all_has_come_back() {
        let rate = Rate::new(2, Duration::from_nanos(20)).unwrap();
        let mut level = Level::default();
        assert!(level.is_full(0));
        assert_eq!(level.take(&rate, 2, 5), Ok(()));
        let refused = Refused { retry_after: Some(Duration::from_nanos(10)) };
        assert_eq!(level.take(&rate, 1, 5), Err(refused));
        assert_eq!(level.take(&rate, 1, 15), Ok(()));
        assert!(!level.is_full(34) && level.is_full(35));
    }
}
