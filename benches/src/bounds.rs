//! What nalix must not miss by far: a run ends with an error if it does.

use crate::{
    case::{Case, Work},
    load::{ENCODES, GROWN, SKIPPED, Sample, WRITES},
};

/// What `peer` has missed, each as a sentence. Only entries of nalix are held to anything.
pub(crate) fn missed(case: &Case, peer: &str, sample: &Sample) -> Vec<String> {
    let mut missed = Vec::new();
    if !peer.starts_with("nalix") {
        return missed;
    }
    let mut at_most = |what: &str, found: Option<f64>, most: f64| {
        if let Some(found) = found.filter(|&found| found > most) {
            missed.push(format!("{what}: {found:.3}, the bound is {most}"));
        }
    };
    match case.work {
        Work::Large => {
            at_most("p99 of small calls beside large messages, us", Some(sample.p99), FAR * SMALL_CALLS_P99);
        }
        Work::Fanout(_) => {
            at_most("encodings of a message", sample.extra(ENCODES), 1.0);
            // The answers to those who ask for a message are written, too.
            at_most("writes for a message to a member", sample.extra(WRITES), 1.0 + 2.0 / MEMBERS);
            if sample.extra(SKIPPED).is_some_and(|skipped| skipped > 0.0) {
                at_most("growth of memory beside a member that is stuck, KiB", sample.extra(GROWN), GROWTH);
            }
        }
        _ => {}
    }
    missed
}

/// The 99th percentile, in microseconds, within which small calls beside large messages are to be answered. See the README
/// for where it comes from.
pub(crate) const SMALL_CALLS_P99: f64 = 50_000.0;
/// How far a bound that depends on the machine's mood may be passed.
const FAR: f64 = 10.0;
/// The fewest members that a group has in any case.
const MEMBERS: f64 = 100.0;
/// In KiB.
const GROWTH: f64 = 4.0 * 1024.0;
