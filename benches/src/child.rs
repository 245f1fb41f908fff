//! The parent's side of a server process.

use std::{
    io::{BufRead, BufReader, Write},
    process::{self, ChildStdin, ChildStdout, Command, Stdio},
};

use crate::{Error, measure::Usage, target::Target};

/// A running server process; killed when dropped.
#[derive(Debug)]
pub(crate) struct Child {
    process: process::Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
    targets: Vec<Target>,
}

impl Child {
    /// Starts this program again with other arguments, and waits until it listens.
    pub(crate) fn start(args: &[String]) -> Result<Self, Error> {
        let mut process = Command::new(std::env::current_exe()?)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (Some(commands), Some(answers)) = (process.stdin.take(), process.stdout.take()) else {
            return Err("the server process has no pipes".into());
        };
        let mut child = Self { process, commands, answers: BufReader::new(answers), targets: Vec::new() };
        let line = child.answer()?;
        let targets = line.strip_prefix("ready ").ok_or_else(|| format!("the server said `{line}`"))?;
        child.targets = targets.split(' ').map(str::parse).collect::<Result<_, _>>()?;
        Ok(child)
    }

    /// Starts counting from zero.
    pub(crate) fn reset(&mut self) -> Result<(), Error> {
        match self.ask("reset")?.as_str() {
            "ok" => Ok(()),
            other => Err(format!("the server answered `{other}` to reset").into()),
        }
    }

    /// What the server used since the last [`reset`](Self::reset).
    pub(crate) fn report(&mut self) -> Result<Usage, Error> {
        Usage::from_line(&self.ask("report")?)
    }

    /// What the `index`th connection dials.
    pub(crate) fn target(&self, index: usize) -> &Target {
        &self.targets[index % self.targets.len()]
    }

    fn ask(&mut self, command: &str) -> Result<String, Error> {
        writeln!(self.commands, "{command}")?;
        self.answer()
    }

    fn answer(&mut self) -> Result<String, Error> {
        let mut line = String::new();
        match self.answers.read_line(&mut line)? {
            0 => Err("the server process ended".into()),
            _ => Ok(line.trim_end().to_owned()),
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
