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
            // On a machine that is busy with other things everything takes longer; then they must at least not wait behind
            // whole messages, one each way. Two of them are on their way at a time.
            let message = 2e6 / sample.ops_per_sec;
            let most = (FAR * SMALL_CALLS_P99).max(1.5 * message);
            at_most("p99 of small calls beside large messages, us", Some(sample.p99), most);
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
///
/// Each of up to a thousand members that only listen has what it has not acknowledged in a log: 16 KiB, in a buffer of up to twice that.
const GROWTH: f64 = 4.0 * 1024.0 + 1_000.0 * 32.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{case::Suite, load::Extra};

    fn sample(ops_per_sec: f64, p99: f64, extras: &[(&'static str, f64)]) -> Sample {
        let extras = extras.iter().map(|&(key, value)| Extra { key, title: key, value }).collect();
        Sample { ops_per_sec, p99, extras, ..Sample::default() }
    }

    fn missed(suite: Suite, peer: &str, sample: &Sample) -> usize {
        super::missed(&suite.cases(true)[0], peer, sample).len()
    }

    #[test]
    fn small_calls_that_wait_behind_large_messages_are_a_failure_of_nalix() {
        let cases = [
            // Messages take 0.1 s.
            (20.0, 40_000.0, 0),
            (20.0, 499_000.0, 0),
            (20.0, 501_000.0, 1),
            // Messages take 2 s.
            (1.0, 2_900_000.0, 0),
            (1.0, 3_100_000.0, 1),
        ];
        for (ops, p99, expected) in cases {
            assert_eq!(missed(Suite::Large, "nalix-sealed", &sample(ops, p99, &[])), expected, "{ops} {p99}");
            assert_eq!(missed(Suite::Large, "tonic", &sample(ops, p99, &[])), 0);
        }
    }

    #[test]
    fn a_message_that_is_encoded_or_written_twice_is_a_failure_and_so_is_memory_that_grows() {
        let fine = [(ENCODES, 1.0), (WRITES, 1.001), (SKIPPED, 1.0), (GROWN, 100.0)];
        assert_eq!(missed(Suite::Fanout, "nalix-stuck", &sample(1.0, 1.0, &fine)), 0);
        for (key, value) in [(ENCODES, 1.01), (WRITES, 1.1), (GROWN, 50_000.0)] {
            let with = fine.map(|(other, was)| (other, if other == key { value } else { was }));
            assert_eq!(missed(Suite::Fanout, "nalix-stuck", &sample(1.0, 1.0, &with)), 1, "{key}");
        }
        // Nobody is stuck: what grows then are buffers.
        let with = [(SKIPPED, 0.0), (GROWN, 50_000.0)];
        assert_eq!(missed(Suite::Fanout, "nalix", &sample(1.0, 1.0, &with)), 0);
    }
}
