//! How many packets that do not decode a peer may still send.

use std::time::Duration;

use tokio::time::Instant;

/// A budget that each bad packet takes one from, and that gets one back each second.
#[derive(Debug)]
pub(super) struct Patience {
    max: u32,
    spent: u32,
    /// Since when what has been spent has not been given back.
    since: Option<Instant>,
}

impl Patience {
    pub(super) fn new(max: u32) -> Self {
        Self { max, spent: 0, since: None }
    }

    /// A packet did not decode. Returns whether the budget could bear it.
    pub(super) fn spend(&mut self, now: Instant) -> bool {
        self.recover(now);
        self.spent = self.spent.saturating_add(1);
        self.spent <= self.max || self.max == u32::MAX
    }

    fn recover(&mut self, now: Instant) {
        let since = *self.since.get_or_insert(now);
        let seconds = now.saturating_duration_since(since).as_secs();
        let forgiven = u32::try_from(seconds).unwrap_or(u32::MAX).min(self.spent);
        self.spent -= forgiven;
        // The part of a second that is left counts for the next; a budget that is whole does not save up.
        let whole = Duration::from_secs(forgiven.into());
        self.since = if self.spent == 0 { Some(now) } else { since.checked_add(whole) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_forgiven_each_second_and_no_more_than_were_spent() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let mut patience = Patience::new(2);
        assert!(patience.spend(at(0)) && patience.spend(at(0)));
        let mut patience_at_end = Patience { ..patience };
        assert!(!patience_at_end.spend(at(999)));
        assert!(patience.spend(at(1_000)));
        // Half a second is not lost when it is looked at in between.
        assert!(patience.spend(at(2_500)));
        assert!(patience.spend(at(3_000)));
        // An hour of peace gives back what was spent, not an hour's worth.
        assert!(patience.spend(at(3_600_000)) && patience.spend(at(3_600_000)));
        assert!(!patience.spend(at(3_600_000)));
    }

    #[test]
    fn none_and_without_end() {
        let now = Instant::now();
        assert!(!Patience::new(0).spend(now));
        let mut endless = Patience { spent: u32::MAX, ..Patience::new(u32::MAX) };
        assert!(endless.spend(now) && endless.spend(now));
    }
}
