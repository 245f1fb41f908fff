//! The command line.

use std::{path::PathBuf, time::Duration};

use lexopt::{Arg, Parser, ValueExt};

use crate::{
    Error,
    case::{Flavour, Suite},
    peers::{self, Entry},
};

pub(crate) const HELP: &str = "\
Usage: compare [--quick] [--suite NAME] [--case TEXT] [--peer a,b] [--secs N] [--runs N] [--json FILE]

  --quick       fewer cases and one short window each: about a minute for everything
  --suite NAME  which cases: latency, echo (includes latency), sum, users, streams, fanout, large, all (default)
  --case TEXT   only cases with this in their name, such as `64 conn, mt`
  --peer A,B    which peers (default: all that were built in; tonic, its TLS variants and tarpc need
                `--features peers`)
  --secs N      length of one measured window in seconds (default 2, quick 0.3)
  --runs N      windows per peer and case, interleaved between the peers; medians are shown (default 3, quick 1)
  --json FILE   append one JSON object per peer and case

Columns: ops/s is the median of the runs and +-% half of what lies between the best and the worst. /raw, /nalix,
/tonic and /tonic-tls are ratios of ops/s to that peer: /nalix for the entries of nalix, /tonic-tls for peers that
encrypt. srv us and cli us are CPU time per operation, allocs/op and B/op heap allocations of the server. An operation
is a call, an item of a stream, a message that has reached a member of a group, or a large message. Suites have more
columns of their own. Ends with an error if a peer fails, or nalix passes a bound by far. See benches/README.md.
";

#[derive(Debug)]
pub(crate) enum Command {
    Compare(Compare),
    Serve(Serve),
    Help,
}

/// What to compare, and for how long.
#[derive(Debug)]
pub(crate) struct Compare {
    pub(crate) quick: bool,
    pub(crate) suite: Suite,
    /// What the name of a case must contain.
    pub(crate) case: String,
    pub(crate) peers: Vec<&'static Entry>,
    /// One measured window; a third of it goes before as warm-up.
    pub(crate) window: Duration,
    pub(crate) runs: usize,
    pub(crate) json: Option<PathBuf>,
}

/// What a child process serves. Written by this program, never by hand.
#[derive(Debug)]
pub(crate) struct Serve {
    pub(crate) peer: &'static Entry,
    pub(crate) flavour: Flavour,
    /// What its clients will do.
    pub(crate) suite: Suite,
    /// The core that all of the server's threads stay on.
    pub(crate) pin: Option<usize>,
}

impl Command {
    pub(crate) fn from_env() -> Result<Self, Error> {
        Self::parse(Parser::from_env())
    }

    fn parse(mut args: Parser) -> Result<Self, Error> {
        let (mut quick, mut suite, mut chosen, mut secs, mut runs) = (false, Suite::All, None, None, None);
        let (mut json, mut case) = (None, String::new());
        while let Some(arg) = args.next()? {
            match arg {
                Arg::Long("quick") => quick = true,
                Arg::Long("suite") => suite = args.value()?.parse_with(str::parse)?,
                Arg::Long("case") => case = args.value()?.string()?,
                Arg::Long("peer") => chosen = Some(args.value()?.parse_with(parse_peers)?),
                Arg::Long("secs") => secs = Some(args.value()?.parse::<f64>()?),
                Arg::Long("runs") => runs = Some(args.value()?.parse::<usize>()?.max(1)),
                Arg::Long("json") => json = Some(PathBuf::from(args.value()?)),
                Arg::Long("help") | Arg::Short('h') => return Ok(Self::Help),
                Arg::Value(word) if word == "serve" => return Serve::parse(args).map(Self::Serve),
                other => return Err(other.unexpected().into()),
            }
        }
        let window = Duration::try_from_secs_f64(secs.unwrap_or(if quick { 0.3 } else { 2.0 }))?;
        let runs = runs.unwrap_or(if quick { 1 } else { 3 });
        let peers = chosen.unwrap_or_else(|| peers::ALL.iter().collect());
        Ok(Self::Compare(Compare { quick, suite, case, peers, window, runs, json }))
    }
}

impl Serve {
    fn parse(mut args: Parser) -> Result<Self, Error> {
        let (mut peer, mut flavour, mut suite, mut pin) = (None, Flavour::MultiThread, Suite::All, None);
        while let Some(arg) = args.next()? {
            match arg {
                Arg::Long("peer") => peer = Some(args.value()?.parse_with(peers::by_name)?),
                Arg::Long("flavour") => flavour = args.value()?.parse_with(str::parse)?,
                Arg::Long("suite") => suite = args.value()?.parse_with(str::parse)?,
                Arg::Long("pin") => pin = Some(args.value()?.parse()?),
                other => return Err(other.unexpected().into()),
            }
        }
        Ok(Self { peer: peer.ok_or("serve needs --peer")?, flavour, suite, pin })
    }

    /// The arguments that [`parse`](Self::parse) understands.
    pub(crate) fn to_args(&self) -> Vec<String> {
        let (peer, flavour, suite) = (self.peer.name, self.flavour.name(), self.suite.name());
        let mut args =
            ["serve", "--peer", peer, "--flavour", flavour, "--suite", suite].map(String::from).to_vec();
        if let Some(core) = self.pin {
            args.extend(["--pin".into(), core.to_string()]);
        }
        args
    }
}

fn parse_peers(names: &str) -> Result<Vec<&'static Entry>, Error> {
    names.split(',').map(peers::by_name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_understands_what_its_parent_says() {
        let serve =
            Serve { peer: &peers::ALL[0], flavour: Flavour::PerCore, suite: Suite::Large, pin: Some(1) };
        let mut args = vec!["compare".to_string()];
        args.extend(serve.to_args());
        let Ok(Command::Serve(parsed)) = Command::parse(Parser::from_iter(args)) else {
            panic!("not understood as `serve`");
        };
        assert_eq!(
            (parsed.peer.name, parsed.flavour, parsed.suite, parsed.pin),
            (serve.peer.name, serve.flavour, serve.suite, serve.pin)
        );
    }

    #[test]
    fn unknown_names_are_refused() {
        for args in
            [["compare", "--peer", "nobody"], ["compare", "--suite", "none"], ["compare", "--secs", "-1"]]
        {
            assert!(Command::parse(Parser::from_iter(args)).is_err(), "{args:?}");
        }
    }
}
