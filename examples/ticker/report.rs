//! What is told about the readers in the end.

use std::fmt;

use crate::{client::WINDOW, lags::Lags, readers::Outcome};

/// How everybody fared.
pub struct Report {
    pub fast: Outcome,
    pub slow: Outcome,
    pub latest: Outcome,
    pub pushed: Outcome,
    pub calls: Lags,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { fast, slow, latest, pushed, calls } = self;
        writeln!(
            f,
            "{:<34} {:>6} {:>8} {:>11} {:>11} {:>11}",
            "", "read", "skipped", "lag p50", "p99", "longest"
        )?;
        for (name, Outcome { skipped, lags, .. }) in [
            ("stream of every quote, fast reader", fast),
            ("stream of every quote, slow reader", slow),
            ("stream of the latest, slow reader", latest),
            ("subscription, slow reader", pushed),
        ] {
            writeln!(f, "{name:<34} {:>6} {skipped:>8} {lags}", lags.count())?;
        }
        writeln!(f, "{:<34} {:>6} {:>8} {calls}\n", "small calls beside", calls.count(), "")?;

        let ahead = slow.made.saturating_sub(slow.lags.count() as u64);
        writeln!(
            f,
            "The server has made {} quotes for the slow reader of all: the {ahead} that it has not",
            slow.made
        )?;
        writeln!(
            f,
            "read fill its window of {WINDOW} bytes, and its producer waits for room. Nobody else does."
        )?;
        writeln!(
            f,
            "For the reader of the latest it has made {}. They are as old as they have waited in",
            latest.made
        )?;
        writeln!(
            f,
            "the window. To the subscriber it has sent {}: one that has not left yet is",
            pushed.made
        )?;
        write!(f, "replaced by the next. Those that he had no time for were left out where they arrived.")
    }
}
