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
    /// One kind of call with this many of them in flight per connection.
    Calls { call: Call, in_flight: usize },
    /// Read streams of items, this many streams at a time per connection.
    Streams { streams: usize, of: Streamed },
    /// Have a message pushed to all members of a group.
    Fanout(Fanout),
    /// Move messages of [`LARGE`] bytes both ways at once, and make small calls beside them.
    Large,
}

/// A call with a small request and a small reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    /// `Sum(i32, i32) -> i32`.
    Sum,
    /// `GetUser(i64) -> User`: two numbers, two times, a name.
    GetUser,
    /// `SayHello(Hello) -> Hello`: some of everything, in a structure.
    SayHello,
}

/// What a stream consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Streamed {
    /// Bytes of data in an item, besides its number.
    pub(crate) size: usize,
    /// Items in a stream. When it has ended, the next one is opened.
    pub(crate) items: u32,
}

/// How a group is sent to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fanout {
    pub(crate) members: usize,
    /// Bytes of a message, the number of its round included.
    pub(crate) payload: usize,
    /// Messages that are sent one right after the other. The next burst is sent when all members have all of the last.
    pub(crate) burst: usize,
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
    Users,
    Streams,
    Fanout,
    Large,
    All,
}

impl Suite {
    const EACH: [(Self, &'static str); 8] = [
        (Self::Latency, "latency"),
        (Self::Echo, "echo"),
        (Self::Sum, "sum"),
        (Self::Users, "users"),
        (Self::Streams, "streams"),
        (Self::Fanout, "fanout"),
        (Self::Large, "large"),
        (Self::All, "all"),
    ];

    /// The cases to run, in order; `quick` keeps those that tell most.
    pub(crate) fn cases(self, quick: bool) -> Vec<Case> {
        let mut cases = Vec::new();
        let mut add = |suite, of: fn(bool, &mut Vec<Case>)| {
            // Latency is a part of echo.
            if self == suite || self == Self::All || (self == Self::Echo && suite == Self::Latency) {
                of(quick, &mut cases);
            }
        };
        add(Self::Latency, latency);
        add(Self::Echo, echo);
        add(Self::Sum, sum);
        add(Self::Users, users);
        add(Self::Streams, streams);
        add(Self::Fanout, fanout);
        add(Self::Large, large);
        cases
    }

    pub(crate) fn name(self) -> &'static str {
        Self::EACH.iter().find(|(suite, _)| *suite == self).map_or("", |(_, name)| name)
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
            cases.push(Case::of(Work::Calls { call: Call::Sum, in_flight }, flavour, 4));
        }
    }
}

fn users(quick: bool, cases: &mut Vec<Case>) {
    for call in [Call::GetUser, Call::SayHello] {
        for flavour in Flavour::BOTH {
            // One of each is enough to see.
            if quick && (call == Call::GetUser) != (flavour == Flavour::MultiThread) {
                continue;
            }
            cases.push(Case::of(Work::Calls { call, in_flight: 100 }, flavour, 4));
        }
    }
}

fn streams(quick: bool, cases: &mut Vec<Case>) {
    // Several times the window each, so that credit decides; the short ones are as long as other comparisons have them.
    let shapes: &[(usize, u32)] = if quick {
        &[(1, 20_000), (100, 5_000), (10_000, 200)]
    } else {
        &[(1, 50_000), (1, 1_800), (100, 20_000), (100, 1_800), (10_000, 1_800)]
    };
    for &(size, items) in shapes {
        for flavour in Flavour::BOTH {
            if quick && size != 100 && flavour == Flavour::PerCore {
                continue;
            }
            let of = Streamed { size, items };
            cases.push(Case::of(Work::Streams { streams: 4, of }, flavour, 4));
        }
    }
}

fn fanout(quick: bool, cases: &mut Vec<Case>) {
    let members = if quick { 200 } else { 1_000 };
    for burst in [1, 8] {
        for flavour in Flavour::BOTH {
            if quick && (burst == 1) != (flavour == Flavour::MultiThread) {
                continue;
            }
            cases.push(Case::of(Work::Fanout(Fanout { members, payload: 100, burst }), flavour, 1));
        }
    }
}

fn large(quick: bool, cases: &mut Vec<Case>) {
    for flavour in Flavour::BOTH {
        if quick && flavour == Flavour::PerCore {
            continue;
        }
        cases.push(Case::of(Work::Large, flavour, 1));
    }
}

impl Case {
    fn of(work: Work, flavour: Flavour, connections: usize) -> Self {
        Self { work, flavour, connections, pinned: false }
    }
}

impl Work {
    /// The suite that it is from.
    pub(crate) fn suite(self) -> Suite {
        match self {
            Self::Echo { .. } => Suite::Echo,
            Self::Calls { call: Call::Sum, .. } => Suite::Sum,
            Self::Calls { .. } => Suite::Users,
            Self::Streams { .. } => Suite::Streams,
            Self::Fanout(_) => Suite::Fanout,
            Self::Large => Suite::Large,
        }
    }

    /// Bytes of data that one operation moves in one direction, where that is what counts.
    pub(crate) fn moved(self) -> Option<usize> {
        match self {
            Self::Streams { of, .. } => Some(of.size),
            Self::Large => Some(LARGE),
            _ => None,
        }
    }
}

impl Call {
    /// Bytes of a request's fields, about.
    pub(crate) fn payload(self) -> usize {
        match self {
            Self::Sum | Self::GetUser => 8,
            Self::SayHello => 80,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::GetUser => "get user",
            Self::SayHello => "say hello",
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
        let known = Self::EACH.iter().find(|(_, known)| *known == name);
        known.map(|(suite, _)| *suite).ok_or_else(|| {
            let names: Vec<_> = Self::EACH.iter().map(|(_, name)| *name).collect();
            format!("unknown suite `{name}` ({})", names.join(", ")).into()
        })
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let connections = self.connections;
        match self.work {
            Work::Echo { payload } => write!(f, "echo {payload} B, {connections} conn")?,
            Work::Calls { call, in_flight } => {
                write!(f, "{}, {connections} conn x {in_flight} in flight", call.name())?;
            }
            Work::Streams { streams, of: Streamed { size, items } } => {
                write!(f, "stream {items} x {size} B, {connections} conn x {streams} streams")?;
            }
            Work::Fanout(Fanout { members, payload, burst }) => {
                write!(f, "fan-out {payload} B, {members} members, bursts of {burst}")?;
            }
            Work::Large => write!(f, "large {} MiB both ways beside 64 B calls", LARGE >> 20)?,
        }
        write!(f, ", {}{}", self.flavour.name(), if self.pinned { ", pinned" } else { "" })
    }
}

/// Bytes of a large message.
pub(crate) const LARGE: usize = 32 << 20;
