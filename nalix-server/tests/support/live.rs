//! Counts what is alive, and waits for a count instead of sleeping.

use tokio::sync::watch;

/// How many guards there are. Clones count together.
#[derive(Debug, Clone)]
pub(crate) struct Live {
    count: watch::Sender<usize>,
    entered: watch::Sender<usize>,
}

impl Default for Live {
    fn default() -> Self {
        Self { count: watch::Sender::new(0), entered: watch::Sender::new(0) }
    }
}

impl Live {
    pub(crate) fn enter(&self) -> Guard {
        self.count.send_modify(|n| *n += 1);
        self.entered.send_modify(|n| *n += 1);
        Guard(self.count.clone())
    }

    /// How many have ever entered.
    pub(crate) fn entered(&self) -> usize {
        *self.entered.borrow()
    }

    pub(crate) fn count(&self) -> usize {
        *self.count.borrow()
    }

    /// Waits until exactly `n` guards are alive.
    pub(crate) async fn is(&self, n: usize) {
        super::soon(async { drop(self.count.subscribe().wait_for(|&count| count == n).await) }).await;
    }

    /// Waits until `n` have entered in all.
    pub(crate) async fn has_entered(&self, n: usize) {
        super::soon(async { drop(self.entered.subscribe().wait_for(|&count| count >= n).await) }).await;
    }
}

/// One that is alive until it is dropped.
#[derive(Debug)]
pub(crate) struct Guard(watch::Sender<usize>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.send_modify(|n| *n -= 1);
    }
}
