//! Another process of the soak: it says a line when it is ready, then answers a line with a line.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use super::Outcome;

pub(crate) struct Remote {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// What it has said first.
    pub(crate) greeting: String,
}

impl Drop for Remote {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Remote {
    pub(crate) fn start(args: &[String]) -> Outcome<Self> {
        Self::spawn(Command::new(std::env::current_exe()?).args(args))
    }

    /// One that gets the processor when nobody else wants it, where there is a program for that.
    pub(crate) fn start_behind_others(args: &[String]) -> Outcome<Self> {
        // A process that is merely nice still keeps the processor for some milliseconds once it has it.
        let ways: [(&str, &[&str]); 2] = [("chrt", &["--idle", "0"]), ("nice", &["-n", "19"])];
        let this = std::env::current_exe()?;
        ways.iter()
            .find_map(|(program, how)| {
                Self::spawn(Command::new(program).args(*how).arg(&this).args(args)).ok()
            })
            .map_or_else(|| Self::start(args), Ok)
    }

    fn spawn(command: &mut Command) -> Outcome<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = child.stdin.take().ok_or("no input")?;
        let mut output = BufReader::new(child.stdout.take().ok_or("no output")?);
        let mut line = String::new();
        output.read_line(&mut line)?;
        Ok(Self { child, input, output, greeting: line.trim().to_owned() })
    }

    /// Numbers that it says when it is told this.
    pub(crate) fn ask(&mut self, what: &str) -> Outcome<Vec<u64>> {
        writeln!(self.input, "{what}")?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        line.split_whitespace().map(|number| Ok(number.parse()?)).collect()
    }
}
