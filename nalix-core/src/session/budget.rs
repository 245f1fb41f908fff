//! How many bytes connections may have in hand together.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// A bound on memory that connections share: for messages in fragments, or for what waits for peers that do not read.
///
/// What counts is the memory that has been given out, which grows with what has come and not with what was announced:
/// whoever wants to use it up has to send that much.
#[derive(Debug)]
pub struct MemoryBudget {
    limit: usize,
    used: AtomicUsize,
}

impl MemoryBudget {
    /// A bound of so many bytes.
    pub fn new(limit: usize) -> Self {
        Self { limit, used: AtomicUsize::new(0) }
    }

    /// The bound, in bytes.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// How many bytes are in use: never more than the bound.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Takes so many bytes, if they are there. The count guards no memory, so no order is needed.
    fn take(&self, n: usize) -> bool {
        let more = |used: usize| used.checked_add(n).filter(|&sum| sum <= self.limit);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    fn give_back(&self, n: usize) {
        self.used.fetch_sub(n, Ordering::Relaxed);
    }
}

/// What one connection has of a budget. It goes back when this is dropped.
#[derive(Debug, Default)]
pub(crate) struct Share {
    budget: Option<Arc<MemoryBudget>>,
    taken: usize,
}

impl Share {
    pub(crate) fn of(budget: Arc<MemoryBudget>) -> Self {
        Self { budget: Some(budget), taken: 0 }
    }

    /// Whether a message of so many bytes could ever be taken.
    pub(super) fn could_hold(&self, len: usize) -> bool {
        self.budget.as_ref().is_none_or(|budget| len <= budget.limit)
    }

    /// Sees to it that there are at least so many bytes in all. If that cannot be, nothing changes.
    pub(crate) fn grow_to(&mut self, bytes: usize) -> bool {
        let Some(budget) = &self.budget else { return true };
        if bytes <= self.taken {
            return true;
        }
        let taken = budget.take(bytes - self.taken);
        if taken {
            self.taken = bytes;
        }
        taken
    }

    /// Gives back what is beyond so many bytes.
    #[inline]
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        if bytes < self.taken
            && let Some(budget) = &self.budget
        {
            budget.give_back(self.taken - bytes);
            self.taken = bytes;
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_never_pass_the_budget_and_give_everything_back() {
        let budget = Arc::new(MemoryBudget::new(100));
        let mut a = Share::of(Arc::clone(&budget));
        let mut b = Share::of(Arc::clone(&budget));
        assert!(a.grow_to(60) && b.grow_to(40));
        assert!(!a.grow_to(61) && !b.grow_to(usize::MAX));
        assert_eq!(budget.used(), 100);
        a.shrink_to(10);
        a.shrink_to(50);
        assert_eq!(budget.used(), 50);
        assert!(b.grow_to(30) && b.grow_to(90), "less is no more");
        drop(b);
        assert_eq!(budget.used(), 10);
        drop(a);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn without_a_budget_there_is_no_bound() {
        let mut share = Share::default();
        assert!(share.could_hold(usize::MAX) && share.grow_to(usize::MAX));
    }
}
