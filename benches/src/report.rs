//! Medians over the runs, as a table to read and as JSON lines to keep.

use std::fmt::Write;

use crate::{
    bounds::SMALL_CALLS_P99,
    case::{Case, Fanout, LARGE, Work},
    load::{Extra, Sample},
    peers::Entry,
};

/// One peer in one case.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) peer: &'static Entry,
    /// The median of every column by itself.
    pub(crate) median: Sample,
    /// Half of what lies between the best and the worst throughput, as a fraction of the median.
    spread: f64,
    runs: usize,
}

impl Row {
    /// Nothing if there are no samples.
    pub(crate) fn of(peer: &'static Entry, samples: &[Sample]) -> Option<Self> {
        fn column(samples: &[Sample], of: impl Fn(&Sample) -> f64) -> Vec<f64> {
            let mut values: Vec<f64> = samples.iter().map(of).collect();
            values.sort_by(f64::total_cmp);
            values
        }
        let of = |of: fn(&Sample) -> f64| median(&column(samples, of));
        let throughput = column(samples, |sample| sample.ops_per_sec);
        let (worst, best) = (throughput.first()?, throughput.last()?);
        let extra_of = |key: &str| median(&column(samples, |sample| sample.extra(key).unwrap_or_default()));
        let median = Sample {
            ops_per_sec: median(&throughput),
            p50: of(|sample| sample.p50),
            p99: of(|sample| sample.p99),
            p999: of(|sample| sample.p999),
            server_cpu: of(|sample| sample.server_cpu),
            client_cpu: of(|sample| sample.client_cpu),
            allocations: of(|sample| sample.allocations),
            allocated_bytes: of(|sample| sample.allocated_bytes),
            extras: samples
                .first()?
                .extras
                .iter()
                .map(|extra| Extra { value: extra_of(extra.key), ..*extra })
                .collect(),
        };
        let spread = (best - worst) / 2.0 / median.ops_per_sec;
        Some(Self { peer, median, spread, runs: samples.len() })
    }
}

/// The case as text: a line per peer, with ratios to those of [`BASES`] that took part.
pub(crate) fn table(case: &Case, rows: &[Row]) -> String {
    let bases: Vec<&Row> =
        BASES.iter().filter_map(|&base| rows.iter().find(|row| row.peer.name == base)).collect();
    let mut text = format!("{case}\n");
    if case.work == Work::Large {
        let bound = SMALL_CALLS_P99 / 1000.0;
        text = format!("{case} (p99 of these to be within {bound} ms)\n");
    }
    let _ = write!(text, "{:<17}{:>10}{:>6}", "peer", "ops/s", "+-%");
    for base in &bases {
        let _ = write!(text, "{:>1$}", format!("/{}", base.peer.name), width(base));
    }
    let _ = write!(
        text,
        "{:>10}{:>10}{:>10}{:>8}{:>8}{:>11}{:>9}",
        "p50 us", "p99 us", "p99.9 us", "srv us", "cli us", "allocs/op", "B/op"
    );
    for extra in rows.first().map_or(&[][..], |row| &row.median.extras) {
        let _ = write!(text, "{:>1$}", extra.title, extra.title.len().max(8) + 2);
    }
    text.push('\n');
    for row in rows {
        let Sample {
            ops_per_sec,
            p50,
            p99,
            p999,
            server_cpu,
            client_cpu,
            allocations,
            allocated_bytes,
            ref extras,
        } = row.median;
        // A large message takes milliseconds, an item of a stream less than one microsecond.
        let (server_cpu, client_cpu) = (digits(server_cpu), digits(client_cpu));
        let _ = write!(text, "{:<17}{ops_per_sec:>10.0}{:>6.1}", row.peer.name, row.spread * 100.0);
        for base in &bases {
            let shown = comparable(row.peer, base.peer);
            let ratio = if shown { ratio(ops_per_sec / base.median.ops_per_sec) } else { "-".into() };
            let _ = write!(text, "{ratio:>0$}", width(base));
        }
        let _ = write!(
            text,
            "{p50:>10.1}{p99:>10.1}{p999:>10.1}{server_cpu:>8}{client_cpu:>8}{allocations:>11.3}\
             {allocated_bytes:>9.1}"
        );
        for extra in extras {
            let _ = write!(text, "{:>1$.2}", extra.value, extra.title.len().max(8) + 2);
        }
        text.push('\n');
    }
    text
}

/// Whether a ratio of `peer` to `base` says something that no other column says.
fn comparable(peer: &Entry, base: &Entry) -> bool {
    match base.name {
        "nalix" => peer.name.starts_with("nalix"),
        "tonic-tls" => peer.secured,
        _ => true,
    }
}

/// How wide the column of ratios to `base` is.
fn width(base: &Row) -> usize {
    (base.peer.name.len() + 3).max(8)
}

/// The row as one JSON object. All values are numbers, booleans and plain names: nothing needs escaping.
pub(crate) fn json(case: &Case, row: &Row) -> String {
    let Sample {
        ops_per_sec,
        p50,
        p99,
        p999,
        server_cpu,
        client_cpu,
        allocations,
        allocated_bytes,
        ref extras,
    } = row.median;
    let (what, payload, in_flight) = match case.work {
        Work::Echo { payload } => ("echo", payload, 1),
        Work::Calls { call, in_flight } => (call.name(), call.payload(), in_flight),
        Work::Streams { streams, of } => ("items", of.size, streams),
        Work::Fanout(Fanout { payload, burst, .. }) => ("push", payload, burst),
        Work::Large => ("large", LARGE, 2),
    };
    let suite = case.work.suite().name();
    let shape = match case.work {
        Work::Streams { of, .. } => format!(",\"items_per_stream\":{}", of.items),
        Work::Fanout(Fanout { members, .. }) => format!(",\"members\":{members}"),
        _ => String::new(),
    };
    let mut more = String::new();
    for Extra { key, value, .. } in extras {
        let _ = write!(more, ",\"{key}\":{value:.4}");
    }
    let (flavour, pinned, connections) = (case.flavour.name(), case.pinned, case.connections);
    let Row { spread, runs, .. } = row;
    let Entry { name, secured, .. } = row.peer;
    format!(
        "{{\"suite\":\"{suite}\",\"what\":\"{what}\",\"payload\":{payload},\"connections\":{connections},\"in_flight\":{in_flight}{shape},\
         \"flavour\":\"{flavour}\",\"pinned\":{pinned},\"peer\":\"{name}\",\"secured\":{secured},\"runs\":{runs},\
         \"ops_per_sec\":{ops_per_sec:.1},\"spread\":{spread:.4},\
         \"p50_us\":{p50:.2},\"p99_us\":{p99:.2},\"p999_us\":{p999:.2},\
         \"server_cpu_us\":{server_cpu:.4},\"client_cpu_us\":{client_cpu:.4},\
         \"allocations\":{allocations:.4},\"allocated_bytes\":{allocated_bytes:.1}{more}}}"
    )
}

/// Two decimals, or what is needed to tell small ratios apart.
fn ratio(value: f64) -> String {
    if value < 0.1 { format!("{value:.4}") } else { format!("{value:.2}") }
}

/// As many decimals as there is room for.
fn digits(micros: f64) -> String {
    match micros {
        ..1.0 => format!("{micros:.3}"),
        ..1000.0 => format!("{micros:.2}"),
        _ => format!("{micros:.0}"),
    }
}

/// Of values in order; between the middle two if there are two.
fn median(sorted: &[f64]) -> f64 {
    let (low, high) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
    f64::midpoint(low, high)
}

/// The peers that others are compared with, in the order of their columns.
const BASES: [&str; 4] = ["raw", "nalix", "tonic", "tonic-tls"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{case::Suite, peers};

    fn sample(ops_per_sec: f64) -> Sample {
        Sample {
            ops_per_sec,
            p50: 1.0,
            p99: 2.0,
            p999: 3.0,
            server_cpu: 4.0,
            client_cpu: 5.0,
            ..Sample::default()
        }
    }

    fn row(peer: &str, samples: &[Sample]) -> Row {
        Row::of(peers::by_name(peer).unwrap(), samples).unwrap()
    }

    #[test]
    fn medians_and_spread() {
        let row = row("raw", &[sample(110.0), sample(90.0), sample(100.0)]);
        assert_eq!((row.median.ops_per_sec, row.spread), (100.0, 0.1));
        assert_eq!(median(&[1.0, 2.0]), 1.5);
        assert!(Row::of(&peers::ALL[0], &[]).is_none());
    }

    #[test]
    fn ratios_are_to_the_peer_their_column_names_and_only_where_they_say_something() {
        let case = &Suite::Latency.cases(true)[0];
        let text = |peers: &[(&str, f64)]| {
            let rows: Vec<_> = peers.iter().map(|&(peer, ops)| row(peer, &[sample(ops)])).collect();
            table(case, &rows)
        };
        let cell = |text: &str, peer: &str, column: &str| {
            let mut lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).skip(1);
            // Titles with a unit are two words, but the ratios come before them.
            let index = lines.next()?.iter().position(|&title| title == column)?;
            lines.find(|line| line[0] == peer).map(|line| line[index].to_owned())
        };
        let shown = text(&[("raw", 200.0), ("nalix", 100.0), ("nalix-async", 50.0)]);
        assert_eq!(cell(&shown, "nalix-async", "/raw").as_deref(), Some("0.25"), "{shown}");
        assert_eq!(cell(&shown, "nalix-async", "/nalix").as_deref(), Some("0.50"), "{shown}");
        assert_eq!(cell(&shown, "raw", "/nalix").as_deref(), Some("-"), "{shown}");
        assert!(!shown.contains("/tonic"), "{shown}");

        #[cfg(feature = "peers")]
        {
            let shown = text(&[
                ("nalix", 100.0),
                ("nalix-sealed", 80.0),
                ("tonic-tls", 10.0),
                ("tonic-duplex-tls", 20.0),
            ]);
            assert_eq!(cell(&shown, "tonic-duplex-tls", "/tonic-tls").as_deref(), Some("2.00"), "{shown}");
            assert_eq!(cell(&shown, "nalix-sealed", "/tonic-tls").as_deref(), Some("8.00"), "{shown}");
            assert_eq!(cell(&shown, "nalix-sealed", "/nalix").as_deref(), Some("0.80"), "{shown}");
            assert_eq!(cell(&shown, "nalix", "/tonic-tls").as_deref(), Some("-"), "{shown}");
        }
    }
}
