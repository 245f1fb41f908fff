//! What the client shows.

use std::io::{self, Write};

use crate::text;

/// A terminal, or a pipe or file that gets plain lines.
///
/// On a terminal the line with the prompt is the last one, and stays as it is, with what has been typed so far: lines are
/// inserted above. The terminal itself edits what is typed, as in a shell's `read`, so there is nothing that would have
/// to be undone if the program came to a sudden end. (What has been typed should fit one row: the terminal does not tell
/// how many rows it takes.)
pub struct Screen<W> {
    out: W,
    terminal: Option<Terminal>,
}

struct Terminal {
    prompt: String,
    columns: usize,
    prompted: bool,
}

impl<W: Write> Screen<W> {
    pub fn plain(out: W) -> Self {
        Self { out, terminal: None }
    }

    pub fn terminal(out: W, prompt: String, columns: usize) -> Self {
        Self { out, terminal: Some(Terminal { prompt, columns, prompted: false }) }
    }

    pub fn is_terminal(&self) -> bool {
        self.terminal.is_some()
    }

    pub fn resize(&mut self, columns: usize) {
        if let Some(terminal) = &mut self.terminal {
            terminal.columns = columns;
        }
    }

    /// Shows the prompt: at the start, and each time that a line has been typed, when the cursor is on a new one.
    pub fn prompt(&mut self) -> io::Result<()> {
        if let Some(terminal) = &mut self.terminal {
            terminal.prompted = true;
            // Where several lines have been typed at once, over the prompt of the one before.
            write!(self.out, "\r{}", terminal.prompt)?;
        }
        self.out.flush()
    }

    /// Shows a line, which may be what others have written.
    pub fn line(&mut self, line: &str) -> io::Result<()> {
        let line = text::clean(line);
        match &self.terminal {
            Some(Terminal { prompted: true, columns, .. }) => {
                // Whoever writes into the last column is on some terminals in the next row already.
                for row in text::rows(&line, columns.saturating_sub(1)) {
                    write!(self.out, "{DOWN}{SAVE}{UP}\r{INSERT}{row}{RESTORE}")?;
                }
            }
            _ => writeln!(self.out, "{line}")?,
        }
        self.out.flush()
    }

    /// Takes the prompt away, so that the shell's is in its place.
    pub fn end(&mut self) -> io::Result<()> {
        if let Some(Terminal { prompted: true, .. }) = self.terminal {
            write!(self.out, "\r{CLEAR}")?;
        }
        self.out.flush()
    }
}

/// One row down in the same column. In the last row everything moves up instead.
const DOWN: &str = "\x1bD";
const UP: &str = "\x1b[A";
const SAVE: &str = "\x1b7";
const RESTORE: &str = "\x1b8";
/// An empty row here; this one and those below move down.
const INSERT: &str = "\x1b[L";
/// Empties the row from here on.
const CLEAR: &str = "\x1b[K";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_gets_lines_and_nothing_else() {
        let mut screen = Screen::plain(Vec::new());
        screen.prompt().unwrap();
        screen.line(&"x".repeat(200)).unwrap();
        screen.line("a\u{1b}b").unwrap();
        screen.end().unwrap();
        assert_eq!(screen.out, format!("{}\na\u{fffd}b\n", "x".repeat(200)).into_bytes());
    }

    #[test]
    fn a_terminal_gets_lines_above_the_prompt() {
        let mut screen = Screen::terminal(Vec::new(), "> ".into(), 6);
        screen.line("before the prompt").unwrap();
        screen.prompt().unwrap();
        screen.line("12345 6").unwrap();
        screen.resize(80);
        screen.line("12345 6").unwrap();
        screen.end().unwrap();
        let row = |row| format!("\x1bD\x1b7\x1b[A\r\x1b[L{row}\x1b8");
        let rows = [row("12345"), row("6"), row("12345 6")].concat();
        assert_eq!(String::from_utf8(screen.out).unwrap(), format!("before the prompt\n\r> {rows}\r\x1b[K"));
    }
}
