//! How far a transfer is.

use std::{
    io::{self, IsTerminal, Stdout, Write},
    time::{Duration, Instant},
};

/// Draws a bar that moves on a terminal, and writes a line each quarter of the way elsewhere.
///
/// Dropped before it is finished, it leaves the bar where it has come to.
pub struct Progress {
    what: &'static str,
    total: u64,
    done: u64,
    started: Instant,
    terminal: bool,
    drawn: bool,
    /// When the bar may be drawn again, and from how many bytes on there is another line.
    next_draw: Instant,
    next_line: u64,
    out: Stdout,
}

impl Progress {
    pub fn new(what: &'static str, total: u64) -> Self {
        let (now, out) = (Instant::now(), io::stdout());
        let terminal = out.is_terminal();
        let next_line = quarter(total, 1);
        Self { what, total, done: 0, started: now, terminal, drawn: false, next_draw: now, next_line, out }
    }

    /// So many bytes more are done.
    pub fn add(&mut self, bytes: u64) -> io::Result<()> {
        self.done += bytes;
        if self.terminal {
            let now = Instant::now();
            if now >= self.next_draw {
                self.next_draw = now + REDRAW;
                self.drawn = true;
                write!(self.out, "\r{}", bar(self.what, self.done, self.total, self.started.elapsed()))?;
                self.out.flush()?;
            }
        } else if self.done >= self.next_line && self.done < self.total {
            self.next_line =
                (1..=4).map(|n| quarter(self.total, n)).find(|&at| at > self.done).unwrap_or(u64::MAX);
            writeln!(self.out, "{}", line(self.what, self.done, self.total, self.started.elapsed()))?;
        }
        Ok(())
    }

    /// Shows where it has come to, for good.
    pub fn finish(mut self) -> io::Result<()> {
        let elapsed = self.started.elapsed();
        self.drawn = false;
        if self.terminal {
            writeln!(self.out, "\r{}", bar(self.what, self.done, self.total, elapsed))
        } else {
            writeln!(self.out, "{}", line(self.what, self.done, self.total, elapsed))
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.drawn {
            println!();
        }
    }
}

fn quarter(total: u64, n: u64) -> u64 {
    (total / 4).saturating_mul(n)
}

fn bar(what: &str, done: u64, total: u64, elapsed: Duration) -> String {
    let filled = (share(done, total) * BAR as f64) as usize;
    format!("{what} [{:<BAR$}] {}", "#".repeat(filled), figures(done, total, elapsed))
}

fn line(what: &str, done: u64, total: u64, elapsed: Duration) -> String {
    format!("{what} {}", figures(done, total, elapsed))
}

/// All of the same width, so that a bar hides the one before.
fn figures(done: u64, total: u64, elapsed: Duration) -> String {
    let percent = (share(done, total) * 100.0) as u32;
    let [done_mib, total_mib] = [done, total].map(|bytes| bytes as f64 / MIB);
    let seconds = elapsed.as_secs_f64();
    let speed = if seconds > 0.0 { done_mib / seconds } else { 0.0 };
    format!("{percent:>3}% {done_mib:>7.1} of {total_mib:.1} MiB {speed:>7.1} MiB/s")
}

/// From 0 to 1. Nothing of nothing is all of it.
fn share(done: u64, total: u64) -> f64 {
    if total == 0 { 1.0 } else { (done as f64 / total as f64).min(1.0) }
}

const REDRAW: Duration = Duration::from_millis(100);
const BAR: usize = 30;
const MIB: f64 = 1_048_576.0;

#[cfg(test)]
mod tests {
    use super::*;

    const M: u64 = 1 << 20;

    #[test]
    fn a_bar_fills_from_left_to_right() {
        let at = |done| bar("up", done, 32 * M, Duration::from_secs(2));
        assert_eq!(at(0), "up [                              ]   0%     0.0 of 32.0 MiB     0.0 MiB/s");
        assert_eq!(at(16 * M), "up [###############               ]  50%    16.0 of 32.0 MiB     8.0 MiB/s");
        assert_eq!(at(32 * M), "up [##############################] 100%    32.0 of 32.0 MiB    16.0 MiB/s");
        assert_eq!(
            at(32 * M - 1),
            "up [############################# ]  99%    32.0 of 32.0 MiB    16.0 MiB/s"
        );
    }

    #[test]
    fn odd_sizes_make_sense() {
        let none = Duration::ZERO;
        assert_eq!(line("up", 0, 0, none), "up 100%     0.0 of 0.0 MiB     0.0 MiB/s");
        // A file that has grown meanwhile.
        assert_eq!(line("up", 2 * M, M, none), "up 100%     2.0 of 1.0 MiB     0.0 MiB/s");
        assert!(line("up", u64::MAX, u64::MAX, none).starts_with("up 100%"));
        assert_eq!(quarter(u64::MAX, 4), u64::MAX - 3);
    }
}
