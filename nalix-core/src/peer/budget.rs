//! What the streams of one connection may hold all together.

/// How many bytes of items the peer may be allowed to send. Every stream is sure of a first window; what is left is lent to
/// those whose items are consumed quickly, and comes back when they end or slow down. So a stream that nobody reads keeps
/// what it was given, and takes nothing that another needs to go on.
#[derive(Debug)]
pub(super) struct Budget {
    /// The window of each stream at first, and the least it ever is.
    first: usize,
    /// The most that a window grows to.
    most: usize,
    /// What is lent, all together, and what of it is there.
    pool: usize,
    free: usize,
    /// How many streams of our own calls there are, and may be.
    own: usize,
    max_own: usize,
    /// Bytes of large items that are being put together, and how many there may be.
    assembling: usize,
    max_assembling: usize,
}

/// What the options say about streams.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StreamLimits {
    /// The largest window of a stream, in bytes.
    pub(crate) window: usize,
    /// All windows together, in bytes.
    pub(crate) budget: usize,
    /// Large items that are being put together, in bytes.
    pub(crate) assembly: usize,
}

impl StreamLimits {
    /// The window with which each stream starts, where the peer has up to `max_calls` calls in flight: a quarter of the budget
    /// is for their uploads.
    pub(crate) fn first_window(&self, max_calls: usize) -> usize {
        (self.budget / 4 / max_calls.max(1)).clamp(1, self.window.max(1))
    }
}

impl Budget {
    /// For streams that start with a window of `first` bytes, while the peer has up to `max_calls` calls in flight.
    pub(super) fn new(limits: StreamLimits, first: usize, max_calls: usize) -> Self {
        let StreamLimits { window, budget, assembly } = limits;
        // A quarter is for the first windows of the peer's uploads, one for those of our own streams.
        let max_own = (budget / 4 / first.max(1)).max(max_calls);
        let pool = budget / 2;
        let most = window.max(first);
        Self { first, most, pool, free: pool, own: 0, max_own, assembling: 0, max_assembling: assembly }
    }

    /// The window of a stream that starts.
    pub(super) fn first(&self) -> usize {
        self.first
    }

    /// Whether one more stream of our own may start.
    pub(super) fn may_open(&self) -> bool {
        self.own < self.max_own
    }

    /// One more stream of our own starts.
    pub(super) fn open(&mut self) {
        self.own += 1;
    }

    /// A stream with this window has ended. `own` says whether it was one of our own.
    pub(super) fn close(&mut self, window: usize, own: bool) {
        self.own -= usize::from(own);
        self.free += window - self.first;
    }

    /// By how much a window grows whose items are consumed quickly: it doubles as far as there is something to lend.
    pub(super) fn grow(&mut self, window: usize) -> usize {
        let more = window.min(self.most.saturating_sub(window)).min(self.free);
        self.free -= more;
        more
    }

    /// By how much a window shrinks whose items are consumed slowly, of `consumed` bytes: not at all unless others need it.
    pub(super) fn shrink(&mut self, window: usize, consumed: usize) -> usize {
        if self.free >= self.pool.div_ceil(8) {
            return 0;
        }
        let less = consumed.min(window - self.first);
        self.free += less;
        less
    }

    /// Makes room for a large item of so many bytes. Returns whether there is any.
    pub(super) fn assemble(&mut self, n: usize) -> bool {
        let sum = self.assembling.saturating_add(n);
        if sum > self.max_assembling {
            return false;
        }
        self.assembling = sum;
        true
    }

    /// A large item is whole, or nobody waits for it.
    pub(super) fn assembled(&mut self, n: usize) {
        self.assembling -= n;
    }
}

#[cfg(test)]
impl Budget {
    pub(super) fn free(&self) -> usize {
        self.free
    }

    pub(super) fn set_free(&mut self, free: usize) {
        self.free = free;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: StreamLimits = StreamLimits { window: 64, budget: 1_600, assembly: 100 };

    #[test]
    fn first_windows_are_a_share_of_the_budget_and_never_above_the_largest() {
        for (max_calls, first) in [(1, 64), (4, 64), (10, 40), (100, 4), (400, 1), (10_000, 1)] {
            assert_eq!(LIMITS.first_window(max_calls), first, "{max_calls}");
        }
        assert_eq!(StreamLimits { budget: 0, ..LIMITS }.first_window(0), 1);
        assert_eq!(StreamLimits { window: 0, ..LIMITS }.first_window(1), 1);
    }

    #[test]
    fn what_is_lent_is_never_more_than_half_the_budget() {
        let mut budget = Budget::new(LIMITS, 40, 10);
        let mut lent = 0;
        for _ in 0..100 {
            lent += budget.grow(40);
        }
        assert_eq!(lent, 800);
        assert_eq!(budget.grow(40), 0);
        // Who is slow gives back what others need, and keeps what it is sure of.
        assert_eq!(budget.shrink(64, 10), 10);
        assert_eq!(budget.shrink(64, 100), 24);
        assert_eq!(budget.shrink(40, 100), 0);
        assert_eq!(budget.grow(40), 24);
        assert_eq!(budget.grow(64), 0, "it is as large as it may be");
    }

    #[test]
    fn nothing_is_taken_back_while_there_is_enough() {
        let mut budget = Budget::new(LIMITS, 40, 10);
        assert_eq!(budget.grow(40), 24);
        assert_eq!(budget.shrink(64, 64), 0);
    }

    #[test]
    fn large_items_have_room_together() {
        let mut budget = Budget::new(LIMITS, 40, 10);
        assert!(budget.assemble(60) && !budget.assemble(41) && budget.assemble(40));
        assert!(!budget.assemble(usize::MAX));
        budget.assembled(60);
        assert!(budget.assemble(60));
    }

    #[test]
    fn streams_of_our_own_are_as_many_as_their_first_windows_fit() {
        let mut budget = Budget::new(LIMITS, 40, 5);
        for _ in 0..10 {
            assert!(budget.may_open());
            budget.open();
        }
        assert!(!budget.may_open());
        assert_eq!(Budget::new(StreamLimits { budget: 0, ..LIMITS }, 1, 5).max_own, 5);
    }
}
