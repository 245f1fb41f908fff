//! Counts what is alive, and waits for a count instead of sleeping.

use tokio::sync::watch;

use super::soon;

/// How many guards there are. Clones count together.
#[derive(Debug, Clone, Default)]
pub(crate) struct Live {
    counts: watch::Sender<Counts>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    alive: usize,
    peak: usize,
    entered: usize,
}

impl Live {
    pub(crate) fn enter(&self) -> Guard {
        self.counts.send_modify(|counts| {
            counts.alive += 1;
            counts.entered += 1;
            counts.peak = counts.peak.max(counts.alive);
        });
        Guard(self.counts.clone())
    }

    /// How many have ever entered.
    pub(crate) fn entered(&self) -> usize {
        self.counts.borrow().entered
    }

    pub(crate) fn count(&self) -> usize {
        self.counts.borrow().alive
    }

    /// The most that have been alive at once.
    pub(crate) fn peak(&self) -> usize {
        self.counts.borrow().peak
    }

    /// Waits until exactly `n` guards are alive.
    pub(crate) async fn is(&self, n: usize) {
        self.wait_for(|counts| counts.alive == n).await;
    }

    /// Waits until `n` have entered in all.
    pub(crate) async fn has_entered(&self, n: usize) {
        self.wait_for(|counts| counts.entered >= n).await;
    }

    async fn wait_for(&self, reached: impl Fn(&Counts) -> bool) {
        soon(async { drop(self.counts.subscribe().wait_for(reached).await) }).await;
    }
}

/// One that is alive until it is dropped, also half-way through its work.
#[derive(Debug)]
pub(crate) struct Guard(watch::Sender<Counts>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.send_modify(|counts| counts.alive -= 1);
    }
}
