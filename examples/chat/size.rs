//! How wide the terminal is.

use std::process::{Command, Stdio};

/// The width of the terminal, and when it may have another one.
pub struct Width {
    #[cfg(unix)]
    changes: Option<tokio::signal::unix::Signal>,
}

impl Width {
    pub fn new() -> Self {
        Self {
            #[cfg(unix)]
            changes: tokio::signal::unix::signal(tokio::signal::unix::SignalKind::window_change()).ok(),
        }
    }

    /// Waits for the next change. Cancel safe.
    pub async fn changed(&mut self) {
        #[cfg(unix)]
        if let Some(changes) = &mut self.changes
            && changes.recv().await.is_some()
        {
            return;
        }
        std::future::pending().await
    }

    /// The columns of the terminal at stdin, or 80 where nobody knows.
    pub fn columns(&self) -> usize {
        // There is no way to ask in safe code of the standard library; this program is on every Unix.
        let asked = Command::new("stty").arg("size").stdin(Stdio::inherit()).stderr(Stdio::null()).output();
        let answer = asked.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        answer.ok().as_deref().and_then(parse).unwrap_or(80)
    }
}

/// Takes the second of two numbers, rows and columns.
fn parse(answer: &str) -> Option<usize> {
    answer.split_whitespace().nth(1)?.parse().ok().filter(|&columns| columns > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rows_and_columns() {
        assert_eq!(parse("24 80\n"), Some(80));
        // What a terminal answers that does not know.
        assert_eq!(parse("0 0\n"), None);
        assert_eq!(parse("stty: not a terminal"), None);
        assert_eq!(parse(""), None);
    }
}
