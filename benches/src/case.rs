//! What is measured: suites, runtime flavours and the cases made of them.

use std::{fmt, str::FromStr};

use crate::Error;

/// One line of the comparison: every peer runs it.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) work: Work,
    pub(crate) flavour: Flavour,
    pub(crate) connections: usize,
    /// Server on the first core, client on the last, one thread each.
    pub(crate) pinned: bool,
}

/// What a client does over and over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// Send this many bytes and wait for their echo: one call in flight per connection.
    Echo { payload: usize },
    /// `Sum(i32, i32) -> i32` with this many calls in flight per connection.
    Sum { in_flight: usize },
}

/// Which runtime both ends run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flavour {
    /// tokio's work-stealing runtime over all cores.
    MultiThread,
    /// One current-thread runtime per core, each with its share of the connections.
    PerCore,
}

/// A group of cases that can be asked for by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Suite {
    Latency,
    Echo,
    Sum,
    All,
}

impl Suite {
    /// The cases to run, in order; `quick` keeps those that tell most.
    pub(crate) fn cases(self, quick: bool) -> Vec<Case> {
        let mut cases = Vec::new();
        if matches!(self, Self::Latency | Self::Echo | Self::All) {
            latency(quick, &mut cases);
        }
        if matches!(self, Self::Echo | Self::All) {
            echo(quick, &mut cases);
        }
        if matches!(self, Self::Sum | Self::All) {
            sum(quick, &mut cases);
        }
        cases
    }
}

fn latency(quick: bool, cases: &mut Vec<Case>) {
    let payloads: &[usize] = if quick { &[32] } else { &[32, 1024] };
    let flavours: &[Flavour] = if quick { &[Flavour::PerCore] } else { &Flavour::BOTH };
    for &payload in payloads {
        for &flavour in flavours {
            cases.push(Case { work: Work::Echo { payload }, flavour, connections: 1, pinned: true });
        }
    }
}

fn echo(quick: bool, cases: &mut Vec<Case>) {
    let shapes: &[(usize, usize)] = if quick {
        &[(32, 64), (1024, 64)]
    } else {
        &[(32, 1), (32, 16), (32, 64), (1024, 1), (1024, 16), (1024, 64)]
    };
    for &(payload, connections) in shapes {
        for flavour in Flavour::BOTH {
            if quick && payload != 32 && flavour == Flavour::PerCore {
                continue;
            }
            cases.push(Case { work: Work::Echo { payload }, flavour, connections, pinned: false });
        }
    }
}

fn sum(quick: bool, cases: &mut Vec<Case>) {
    for in_flight in [100, 1000] {
        for flavour in Flavour::BOTH {
            if quick && in_flight != 100 && flavour == Flavour::PerCore {
                continue;
            }
            cases.push(Case { work: Work::Sum { in_flight }, flavour, connections: 4, pinned: false });
        }
    }
}

impl Flavour {
    const BOTH: [Self; 2] = [Self::MultiThread, Self::PerCore];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::MultiThread => "mt",
            Self::PerCore => "ct",
        }
    }
}

impl FromStr for Flavour {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let known = Self::BOTH.into_iter().find(|flavour| flavour.name() == name);
        known.ok_or_else(|| format!("unknown flavour `{name}` (mt, ct)").into())
    }
}

impl FromStr for Suite {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        match name {
            "latency" => Ok(Self::Latency),
            "echo" => Ok(Self::Echo),
            "sum" => Ok(Self::Sum),
            "all" => Ok(Self::All),
            _ => Err(format!("unknown suite `{name}` (latency, echo, sum, all)").into()),
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.work {
            Work::Echo { payload } => write!(f, "echo {payload} B, {} conn", self.connections)?,
            Work::Sum { in_flight } => write!(f, "sum, {} conn x {in_flight} in flight", self.connections)?,
        }
        write!(f, ", {}{}", self.flavour.name(), if self.pinned { ", pinned" } else { "" })
    }
}
